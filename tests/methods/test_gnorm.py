"""Gradient norms without weight gradients must equal the norms of weight gradients."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from methods.checks.tiny import Batch
from methods.gnorm import gnorm, weight_gradient_norm
from methods.heads.finding.blocks import find_blocks
from methods.heads.incremental.graph_segments import GraphSegments
from methods.heads.surgery.shrink import shrink, working_copy
from tests.fixtures.slow import slow_cases
from tests.methods.heads.conftest import Zoo

PARTS = ("query", "key", "value")
COMBINE = {
    "product": lambda norms: norms[0] * norms[1] * norms[2],
    "sum": lambda norms: norms[0] + norms[1] + norms[2],
    "max": max,
}


def _scalar(view, batch, objective):
    return view.loss(batch).mean() if objective == "loss" else view.logits(batch).norm()


def _norms_of_weight_gradients(view, batch, objective):
    """{(site, head): [norm of W_Q's, W_K's, W_V's gradient]} from one backward that forms all weight gradients."""
    view.model.requires_grad_(True).zero_grad()
    _scalar(view, batch, objective).backward()
    norms = {}
    for index, site in enumerate(view.heads.sites):
        for head in range(site.num_heads):
            group = head * site.num_key_value_heads // site.num_heads
            norms[index, head] = []
            for part, block in zip(PARTS, (head, group, group), strict=True):
                gradient = view.model.get_submodule(site.projections[part]).weight.grad  # (heads * d_h, d)
                rows = gradient[block * site.head_dim : (block + 1) * site.head_dim]
                norms[index, head].append(rows.norm().item())
    view.model.requires_grad_(False).zero_grad()
    return norms


def slow_gnorm(view, batches, objective, combine):
    """Mean of each norm over ``batches``, then combined, then the mean over a unit's heads."""
    each = [_norms_of_weight_gradients(view, batch, objective) for batch in batches]
    importance = []
    for unit in view.heads.units:
        of_heads = []
        for head in unit.heads:
            means = [sum(norms[unit.site, head][part] for norms in each) / len(each) for part in range(3)]
            of_heads.append(COMBINE[combine](means))
        importance.append(sum(of_heads) / len(of_heads))
    return torch.tensor(importance, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
@pytest.mark.parametrize("combine", list(COMBINE))
@pytest.mark.parametrize("objective", ["logits", "loss"])
def test_a_backward_for_each_sentence(tiny, architecture, objective, combine, seed, dtype):
    model, sentences = tiny.model(architecture, seed, dtype), tiny.sentences(seed, count=5)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:2], first), tiny.batch(sentences[2:], second, extra=seed)]
    view = tiny.view(model, batches, tiny.unit(architecture))
    expected = slow_gnorm(view, tiny.alone(sentences), objective, combine)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    torch.testing.assert_close(
        gnorm(view, objective=objective, combine=combine), expected, rtol=tolerance, atol=1e-3 * tolerance
    )


@pytest.mark.parametrize("longest", [2, 24], ids=["short", "long"])
def test_both_ways_to_the_norm_on_models(tiny, architecture, longest):
    """Up to a third of the width (16) sentences take the inner product, longer ones the weight gradient itself."""
    sentences = tiny.sentences(3, count=4, longest=longest, shortest=longest - 1)
    model = tiny.model(architecture, dtype=torch.float64)
    view = tiny.view(model, [tiny.batch(sentences)], tiny.unit(architecture))
    expected = slow_gnorm(view, tiny.alone(sentences), "logits", "sum")
    torch.testing.assert_close(gnorm(view, combine="sum"), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("objective", ["logits", "loss"])
def test_one_backward_for_a_batch(tiny, architecture, objective):
    model, sentences = tiny.model(architecture, dtype=torch.float64), tiny.sentences(4, count=7)
    batches = [tiny.batch(sentences[:4]), tiny.batch(sentences[4:])]
    view = tiny.view(model, batches, tiny.unit(architecture))
    expected = slow_gnorm(view, batches, objective, "product")
    actual = gnorm(view, objective=objective, variant="batch")
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(actual, gnorm(view, objective=objective), rtol=1e-3)


SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(1, 30), st.integers(1, 3), st.integers(1, 5))


@settings(max_examples=80)
@given(shape=SHAPES, seed=st.integers(0, 999))
def test_both_ways_to_the_norm(shape, seed):
    batch, length, width, heads, head_dim = shape
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, length, width, generator=generator)
    g = torch.randn(batch, length, heads, head_dim, generator=generator)
    expected = torch.stack(
        [torch.stack([(x[b].double().T @ g[b, :, h].double()).norm() for h in range(heads)]) for b in range(batch)]
    )
    # Columns of zeros do not change the norm, rows of zeros neither; they do choose the way.
    wide = torch.cat([x, torch.zeros(batch, length, 3 * length)], 2)
    long_x = torch.cat([x, torch.zeros(batch, width, width)], 1)
    long_g = torch.cat([g, torch.zeros(batch, width, heads, head_dim)], 1)
    for values in (x, g), (wide, g), (long_x, long_g):
        torch.testing.assert_close(weight_gradient_norm(*values).double(), expected, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize(  # the graph of no batch, of one of them, and of both
    ("objective", "graph_bytes", "stored"),
    [
        *(("logits", 0, 0), ("logits", 90_000, 1), ("logits", 2**30, 2), ("loss", 90_000, 1)),
        *slow_cases(("loss", 0, 0), ("loss", 2**30, 2)),
    ],
)
def test_what_is_kept_between_steps_changes_nothing(tiny, architecture, objective, graph_bytes, stored, monkeypatch):
    """Scores of a model that loses units, with the last step's graph and without; with four layers and two batches."""
    monkeypatch.setattr("methods.heads.incremental.graph_segments.GRAPH_BYTES", graph_bytes)
    sentences = tiny.sentences(6, count=5)
    model = working_copy(tiny.model(architecture, dtype=torch.float64, layers=4))
    plain = tiny.view(model, [tiny.batch(sentences[:3]), tiny.batch(sentences[3:])], tiny.unit(architecture))
    view, generator = replace(plain, memory={}), torch.Generator().manual_seed(1)
    batches = []
    while len(view.heads):
        torch.testing.assert_close(
            gnorm(view, objective=objective),
            gnorm(replace(view, memory=None), objective=objective),
            rtol=1e-9,
            atol=1e-15,
        )
        batches.append(len(view.memory))
        keep = view.heads.full_mask()
        keep[torch.randperm(len(keep), generator=generator)[:2]] = False
        heads = shrink(model, keep, view.heads)
        view = replace(view, heads=heads, kept=heads.full_mask())
    stored = 0 if architecture == "albert" else stored
    assert batches[0] == min(batches) == stored  # smaller models need less


def test_blocks_below_the_change_are_not_run_again(tiny):
    model = working_copy(tiny.model("bert", layers=4))
    view = replace(tiny.view(model, [tiny.batch(tiny.sentences(1))]), memory={})
    calls = []
    for site in view.heads.sites:
        model.get_submodule(site.output).register_forward_hook(lambda *_, layer=site.layer: calls.append(layer))
    gnorm(view)
    assert calls == [0, 1, 2, 3]
    heads = shrink(model, torch.arange(16) != 9, view.heads)
    calls.clear()
    gnorm(replace(view, heads=heads, kept=heads.full_mask()))
    assert calls == [2, 3]


def test_a_model_that_reads_lower_blocks_elsewhere_keeps_nothing(tiny):
    model = working_copy(tiny.model("bert", dtype=torch.float64))
    view = tiny.view(model, [tiny.batch(tiny.sentences(1))])
    seen = []
    model.bert.encoder.layer[0].register_forward_hook(lambda module, args, output: seen.append(output))
    view = replace(view, forward=lambda model, batch: model(**batch.inputs).logits * seen[-1].mean())
    torch.testing.assert_close(gnorm(replace(view, memory={})), gnorm(view), rtol=1e-9, atol=1e-15)
    assert_runs_in_full_from_the_second_batch_on(view)


def test_a_model_whose_blocks_give_more_than_one_tensor_keeps_nothing(tiny):
    zoo = Zoo()
    model = zoo.model("gptj", dtype=torch.float64).requires_grad_(False)
    view = tiny.view(model, [Batch(zoo.batch("gptj"), torch.zeros(4, dtype=torch.long))])
    assert find_blocks(model, view.heads)
    assert_runs_in_full_from_the_second_batch_on(view)


def assert_runs_in_full_from_the_second_batch_on(view):
    """The first batch shows that blocks are no chain: then no graph is left, and nothing runs twice."""
    model = working_copy(view.model)
    view = replace(view, model=model, batches=[*view.batches, *view.batches], memory={})
    ran, graphs, own = [], [], GraphSegments.__init__
    model.get_input_embeddings().register_forward_hook(lambda *_: ran.append(1))

    def noted(segments, blocks):
        own(segments, blocks)
        graphs.append(weakref.ref(segments))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(GraphSegments, "__init__", noted)
        for passes in (3, 2):
            ran.clear()
            gnorm(view)
            gc.collect()
            assert len(ran) == passes and [graph() for graph in graphs] == [None]
            keep = torch.arange(len(view.heads)) != 1
            view = replace(view, heads=shrink(model, keep, view.heads), kept=keep[keep])


def test_queries_that_are_scaled_in_place_of_one_text(tiny):
    """A batch of one text has the memory of the projection's output itself in Longformer."""
    zoo = Zoo()
    model, inputs = zoo.model("longformer", dtype=torch.float64), zoo.batch("longformer")
    texts = [Batch({name: rows[:1] for name, rows in inputs.items()}, torch.zeros(1, dtype=torch.long))]
    view = tiny.view(model.requires_grad_(False), texts)
    torch.testing.assert_close(gnorm(view), slow_gnorm(view, texts, "logits", "product"), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("combine", list(COMBINE))
def test_the_norm_of_a_text_is_that_of_all_its_logits_where_each_token_has_some(tiny, combine):
    batches = [tiny.batch(tiny.sentences(0))]
    view = tiny.view(tiny.model("bert"), batches)
    own, factors = view.forward, torch.tensor([1.0, -3.0, 0.5])
    view = replace(view, forward=lambda model, batch: own(model, batch)[:, None].tanh() * factors[:, None])
    assert view.logits(batches[0]).ndim == 3
    expected = slow_gnorm(view, tiny.alone(tiny.sentences(0)), "logits", combine)
    torch.testing.assert_close(gnorm(view, combine=combine), expected, rtol=1e-3, atol=1e-6)
