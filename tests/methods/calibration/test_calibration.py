"""What methods gather from the calibration set: gate gradients, contexts, and results that are remembered."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import pytest
import torch

from methods.calibration.contexts import each_context
from methods.calibration.gate_gradients import gradients_at, gradients_at_site
from methods.calibration.once import once
from tests.methods.activations import contexts_of


@pytest.fixture
def view(tiny, architecture):
    sentences = tiny.sentences(0, count=5)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=1), tiny.batch(sentences[3:], second)]
    return tiny.view(tiny.model(architecture, 0, torch.float64), batches, tiny.unit(architecture))


def test_gradients_at_one_site_are_those_at_all_with_the_other_gates_open(view):
    generator = torch.Generator().manual_seed(0)
    for batch in view.batches:
        for site in range(len(view.heads.sites)):
            mine = view.heads.site_of_unit == site
            gates = torch.ones(len(view.heads), len(batch.labels), dtype=torch.float64)
            gates[mine] = torch.rand(int(mine.sum()), len(batch.labels), dtype=torch.float64, generator=generator)
            expected = gradients_at(view, batch, gates.clone())[mine]
            torch.testing.assert_close(gradients_at_site(view, batch, site, gates[mine].clone()), expected)


def test_contexts_are_those_of_each_text_without_padding(view, tiny):
    found: dict[int, list[torch.Tensor]] = {}
    each_context(view, lambda site, tokens, texts: found.setdefault(site, []).append(tokens))
    expected = contexts_of(view, tiny.alone(tiny.sentences(0, count=5)))
    for (site, head), tokens in expected.items():
        mine = torch.cat(found[site])[:, head]
        assert mine.shape == tokens.shape
        torch.testing.assert_close(mine.sort(0).values, tokens.sort(0).values)


def test_tokens_know_their_text(view):
    lengths = [batch.inputs["attention_mask"].sum(1) for batch in view.batches]
    found = []
    each_context(view, lambda site, tokens, texts: found.append(torch.bincount(texts)))
    calls = sum(site.calls for site in view.heads.sites)
    assert [each.tolist() for each in found] == [each.tolist() for each in lengths for _ in range(calls)]


def test_padding_must_be_known(tiny):
    batch = tiny.batch(tiny.sentences(0))
    del batch.inputs["attention_mask"]
    view = tiny.view(tiny.model("llama"), [batch])
    with pytest.raises(ValueError, match="its padding is unknown"):
        each_context(view, lambda site, tokens, texts: None)


def test_a_result_is_remembered_for_one_view_alone_and_no_longer_than_it_lives(tiny):
    calls = []

    class Result:
        pass

    @once
    def slow(view):
        calls.append(view.heads)
        return Result()

    view = tiny.view(tiny.model("bert"), [])
    assert slow(view) is slow(view)
    other = dataclasses.replace(view)
    assert slow(other) is not slow(view)
    assert len(calls) == 3
    held = weakref.ref(slow(view))
    del view
    gc.collect()
    assert held() is None
