"""Every family of translation models: the loss is the model's own, and removed heads do what gates of zero do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest
import torch

from methods.heads import HeadMap, gated, remove_heads, save_pruned
from tasks.models.cache import Cache
from tasks.request import TaskSpec
from tasks.translating import generate
from tasks.translation import Translation
from tests.fixtures.slow import slow_cases
from tests.fixtures.translation import FAMILIES, save_family

CPU = torch.device("cpu")
KINDS = ("encoder", "decoder", "cross")
TYPICAL = ("marian", "t5")  # of which one has biases by position, and no scale of attention
SOME = [*TYPICAL, *slow_cases(*(family for family in FAMILIES if family not in TYPICAL))]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a random model by its family and the side that its tokenizer pads on; each is made once."""
    return cache(lambda family, side: save_family(family, tmp_path_factory.mktemp("models") / family, side))


@pytest.fixture
def short(monkeypatch):
    """Random models do not end their translations by themselves, so these end early."""
    monkeypatch.setattr(generate, "PER_TOKEN", 0)


def opened(folder, tiny_pairs, tmp_path, **flags):
    """A task on a few pairs, and its model."""
    task = Translation(
        TaskSpec(task="translation", model=str(folder), data=str(tiny_pairs), text=("en", "hu"), limit=6, **flags)
    )
    return task, task.open(0, Cache(tmp_path / "cache"), CPU).requires_grad_(False)


def masks(heads: HeadMap) -> Iterator[torch.Tensor]:
    """Without the heads of each kind, and without a half of all heads, as many in each module."""
    for kind in KINDS:
        yield torch.tensor([heads.sites[unit.site].kind != kind for unit in heads.units])
    yield torch.tensor([unit.heads[0] % 2 == 1 for unit in heads.units])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_is_that_of_the_model_for_labels(family, saved, tiny_pairs, tmp_path):
    task, model = opened(saved(family, "right"), tiny_pairs, tmp_path)
    (batch,) = task.calibration(0, 8, CPU)
    lengths = batch.inputs["decoder_attention_mask"].sum(1)
    assert lengths.min() < lengths.max()  # so that padding matters
    mine = task.loss(task.logits(model, batch), batch)
    for row, length in enumerate(lengths.tolist()):
        real = batch.inputs["attention_mask"][row].bool()
        labels = batch.inputs["decoder_targets"][row : row + 1, :length]
        alone = model(input_ids=batch.inputs["input_ids"][row : row + 1, real], labels=labels).loss
        torch.testing.assert_close(mine[row], alone)
    labels = batch.inputs["decoder_targets"].masked_fill(batch.inputs["decoder_attention_mask"] == 0, -100)
    if family != "mbart":  # which looks for the last token, and takes padding of -100 for one
        inputs = {name: batch.inputs[name] for name in ("input_ids", "attention_mask")}
        together = model(**inputs, labels=labels).loss
        torch.testing.assert_close((mine * lengths).sum() / lengths.sum(), together)


@pytest.mark.parametrize("family", SOME)
def test_a_translation_does_not_depend_on_its_batch_though_the_tokenizer_pads_on_the_left(
    family, saved, tiny_pairs, tmp_path, short, monkeypatch
):
    task, model = opened(saved(family, "left"), tiny_pairs, tmp_path)
    batch = task.probe(6, CPU)
    assert not batch.inputs["attention_mask"].all()
    together, losses = task.evaluate(model), task.loss(task.logits(model, batch), batch)
    monkeypatch.setattr(generate, "BATCH", 1)
    assert task.evaluate(model).texts == together.texts
    for row, ids in enumerate(batch.inputs["input_ids"]):
        source = ids[batch.inputs["attention_mask"][row].bool()][None]
        target = batch.inputs["decoder_attention_mask"][row].bool()
        read, wanted = (batch.inputs[f"decoder_{name}"][row][target] for name in ("input_ids", "targets"))
        logits = model(input_ids=source, decoder_input_ids=read[None]).logits[0]
        torch.testing.assert_close(losses[row], torch.nn.functional.cross_entropy(logits, wanted))


@pytest.mark.parametrize("family", SOME)
def test_removed_equals_gated_in_logits_and_in_text(family, saved, tiny_pairs, tmp_path, short):
    task, model = opened(saved(family, "right"), tiny_pairs, tmp_path)
    heads, batch = HeadMap.of(model), task.probe(6, CPU)
    assert {site.kind for site in heads.sites} == set(KINDS) and not batch.inputs["attention_mask"].all()
    unpruned = task.evaluate(model).texts
    for mask in masks(heads):
        smaller = remove_heads(model, mask, heads)
        with gated(model, mask, heads):
            expected, texts = task.logits(model, batch), task.evaluate(model).texts
        torch.testing.assert_close(task.logits(smaller, batch), expected, atol=1e-4, rtol=1e-4)
        assert task.evaluate(smaller).texts == texts
        assert texts != unpruned  # text that the heads make no difference to would show nothing


@pytest.mark.parametrize("family", SOME)
def test_so_it_is_with_beams(family, saved, tiny_pairs, tmp_path, short):
    task, model = opened(saved(family, "right"), tiny_pairs, tmp_path, beams=3)
    greedy, _ = opened(saved(family, "right"), tiny_pairs, tmp_path)
    heads = HeadMap.of(model)
    assert task.evaluate(model).texts != greedy.evaluate(model).texts
    for mask in masks(heads):
        with gated(model, mask, heads):
            texts = task.evaluate(model).texts
        assert task.evaluate(remove_heads(model, mask, heads)).texts == texts


@pytest.mark.parametrize("beams", [*slow_cases(1), 3])
@pytest.mark.parametrize("family", SOME)
@torch.no_grad()
def test_so_it_is_for_sources_that_are_padded_on_the_left(family, beams, saved, tiny_pairs, tmp_path):
    """Which the adapter never does, but whoever loads the smaller model may."""
    task, model = opened(saved(family, "right"), tiny_pairs, tmp_path)
    heads, inputs = HeadMap.of(model), task.probe(6, CPU).inputs
    shifts = (inputs["attention_mask"] == 0).sum(1).tolist()
    assert any(shifts)
    left = {
        name: torch.stack([row.roll(shift) for row, shift in zip(inputs[name], shifts, strict=True)])
        for name in ("input_ids", "attention_mask")
    }
    options = {"num_beams": beams, "do_sample": False, "max_new_tokens": 8, "min_new_tokens": 8}
    unpruned = model.generate(**left, **options)
    for mask in masks(heads):
        with gated(model, mask, heads):
            expected = model.generate(**left, **options)
        assert torch.equal(remove_heads(model, mask, heads).generate(**left, **options), expected)
        assert not torch.equal(expected, unpruned)


PROGRAM = """
import sys, torch
from pathlib import Path
from methods.heads.surgery.save import PRUNING, load_pruned, save_pruned
from tasks.models.cache import Cache
from tasks.models.checkpoint import FORMATS, Format
from tasks.request import TaskSpec
from tasks.translation import Translation
FORMATS[PRUNING] = Format(load_pruned, save_pruned)
task = Translation(TaskSpec(task="translation", model=sys.argv[1], data=sys.argv[2], text=("en", "hu"), limit=6))
print("\\n".join(task.evaluate(task.open(0, Cache(Path("nowhere")), torch.device("cpu"))).texts))
"""


@pytest.mark.slow
def test_a_saved_model_gives_the_same_text_in_another_process(tiny_marian, tiny_pairs, tmp_path):
    task, model = opened(tiny_marian, tiny_pairs, tmp_path)
    heads = HeadMap.of(model)
    *_, half = masks(heads)
    smaller = remove_heads(model, half, heads)
    save_pruned(smaller, tmp_path / "smaller")
    task.save_tokenizer(tmp_path / "smaller")
    call = [sys.executable, "-c", PROGRAM, str(tmp_path / "smaller"), str(tiny_pairs)]
    found = subprocess.run(call, capture_output=True, text=True, encoding="utf-8")
    assert found.stdout.rstrip("\n") == "\n".join(task.evaluate(smaller).texts), found.stderr
