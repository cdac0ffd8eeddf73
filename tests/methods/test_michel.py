"""Gate gradients must be the slope of the loss, an example at a time."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from methods import METHODS
from methods.contract.choosing import select
from methods.contract.schedule import Schedule, trajectories
from methods.heads import gated
from methods.michel import michel
from tests.fixtures.slow import slow_cases

STEP = 1e-5


def slow_sensitivity(view, texts):
    """Mean over texts of |slope of the loss in each gate|, by central differences, without any autograd."""
    total = torch.zeros(len(view.heads), dtype=torch.float64)
    with torch.no_grad():
        for text in texts:
            for unit in range(len(view.heads)):
                losses = []
                for change in (STEP, -STEP):
                    gates = torch.ones(len(view.heads), dtype=torch.float64)
                    gates[unit] += change
                    with gated(view.model, gates, view.heads):
                        losses.append(view.loss(text).item())
                total[unit] += abs(losses[0] - losses[1]) / (2 * STEP)
    return total / len(texts)


def per_layer(view, importance, kept):
    """``importance`` divided by the length of its layer's vector over the units kept."""
    result = importance.clone()
    for unit in range(len(importance)):
        site = view.heads.units[unit].site
        peers = [other for other in range(len(importance)) if view.heads.units[other].site == site and kept[other]]
        length = sum(importance[other].item() ** 2 for other in peers) ** 0.5
        result[unit] = importance[unit] / length if length else 0.0
    return result


@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
def test_finite_differences_on_each_text(tiny, architecture, seed):
    model, sentences = tiny.model(architecture, seed, torch.float64), tiny.sentences(seed, count=5)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=seed), tiny.batch(sentences[3:], second)]
    view = tiny.view(model, batches, tiny.unit(architecture))
    expected = slow_sensitivity(view, tiny.alone(sentences))
    torch.testing.assert_close(michel(view), expected, rtol=1e-5, atol=1e-7)


def test_a_backward_for_each_text(tiny, architecture):
    """|<context, d loss / d context>| of one text, summed over a unit's heads and a tied layer's calls."""
    sentences = tiny.sentences(5)
    view = tiny.view(tiny.model(architecture), [tiny.batch(sentences)], tiny.unit(architecture))
    expected = torch.zeros(len(view.heads), dtype=torch.float64)
    for text in tiny.alone(sentences):
        contexts = []
        hooks = [_keep_context(view.model.get_submodule(site.output), contexts) for site in view.heads.sites]
        view.model.requires_grad_(True)
        gradients = torch.autograd.grad(view.loss(text).sum(), [z for _, z in contexts])
        for hook in hooks:
            hook.remove()
        slopes = torch.zeros(len(view.heads), dtype=torch.float64)
        for (module, z), gradient in zip(contexts, gradients, strict=True):
            for number, unit in enumerate(view.heads.units):
                site = view.heads.sites[unit.site]
                if view.model.get_submodule(site.output) is module:
                    for head in unit.heads:
                        block = slice(head * site.head_dim, (head + 1) * site.head_dim)
                        slopes[number] += (z[..., block] * gradient[..., block]).sum().item()
        expected += slopes.abs() / len(sentences)
    torch.testing.assert_close(michel(view), expected, rtol=1e-3, atol=1e-6)


def _keep_context(output: nn.Module, contexts: list):
    return output.register_forward_pre_hook(lambda module, args: contexts.append((module, args[0])))


@pytest.mark.parametrize(("layer_norm", "step"), [(True, 1), (False, 3), *slow_cases((True, 3), (False, 1))])
def test_greedy_follows_finite_differences(tiny, architecture, layer_norm, step):
    """Again and again: slopes with what was removed gated away, the norm over what is left, and the least ones go."""
    sentences = tiny.sentences(2, count=2, longest=5)
    model = tiny.model(architecture, 2, torch.float64)
    view = tiny.view(model, [tiny.batch(sentences)], tiny.unit(architecture))
    kept, expected = view.heads.full_mask(), []
    while kept.any():
        with gated(view.model, kept, view.heads):
            scores = slow_sensitivity(view, tiny.alone(sentences))
        if layer_norm:
            scores = per_layer(view, scores, kept)
        expected += sorted(kept.nonzero().flatten().tolist(), key=lambda unit: scores[unit])[:step]
        kept[expected] = False
    method = METHODS["greedy-michel"]
    options = method.configure({"layer_norm": layer_norm, "recompute": step})
    assert select(method, options, view, [0]).orders == [expected]


@pytest.mark.parametrize(
    ("name", "given", "norm"),
    [
        ("michel", {}, True),
        ("michel", {"recompute": "2"}, False),
        ("michel", {"recompute": "2", "layer_norm": "true"}, True),
        ("michel", {"layer_norm": "false"}, False),
        ("greedy-michel", {}, False),
        ("greedy-michel", {"layer_norm": "true"}, True),
        ("greedy-michel", {"recompute": "0"}, True),
    ],
)
def test_by_default_only_a_single_scoring_is_normed(tiny, name, given, norm):
    method, view = METHODS[name], tiny.random_view("bert", dtype=torch.float64)
    options = method.configure(given)
    schedule = {option: options[option] for option in ("recompute", "inverse", "allocation")}
    (path,) = select(method, options, view, [0]).trajectories
    (expected,) = trajectories(michel, view, Schedule(**schedule, layer_norm=norm))
    assert torch.equal(path.order, expected.order)
    torch.testing.assert_close(path.scores, expected.scores, equal_nan=True)
    lengths = path.scores[0].square().unflatten(0, (2, 4)).sum(1)
    assert torch.allclose(lengths, torch.ones_like(lengths)) == norm


def test_without_the_norm_the_last_heads_are_not_decided_by_index(tiny):
    """With it, the only head that a layer has left always scores 1."""
    view, method = tiny.random_view("bert", dtype=torch.float64), METHODS["greedy-michel"]
    ties = [
        select(method, method.configure({"layer_norm": norm}), view, [0]).trajectories[0].ties
        for norm in (True, "auto")
    ]
    assert ties == [1, 0]


@pytest.mark.parametrize("layer_norm", [False, True])
def test_removed_heads_do_not_count(tiny, architecture, layer_norm):
    view = tiny.random_view(architecture, dtype=torch.float64)
    kept = torch.arange(len(view.heads)) % 2 == 1
    view = tiny.view(view.model, view.batches, view.heads.unit, kept)
    raw = michel(view)
    assert raw[~kept].min() > 0  # not gated here, so that only the norm can leave them out
    (path,) = trajectories(michel, view, Schedule(layer_norm=layer_norm))
    torch.testing.assert_close(path.scores[0], per_layer(view, raw, kept) if layer_norm else raw)
    with gated(view.model, kept, view.heads):
        assert michel(view)[~kept].abs().max() == 0


def test_a_layer_without_heads_has_no_nan(tiny):
    view = tiny.random_view("bert")
    kept = view.heads.site_of_unit != 0
    view = tiny.view(view.model, view.batches, kept=kept)
    with gated(view.model, kept, view.heads):
        (path,) = trajectories(michel, view, Schedule(layer_norm=True))
    importance = path.scores[0]
    assert importance[~kept].eq(0).all()
    torch.testing.assert_close(importance[kept].square().sum().item(), 1.0)
