"""Shapley values by sampling must be those of the definition: a sum over all sets of the other units."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest
import torch

from bench.measure.cost import counting
from methods.heads import gated, remove_heads
from methods.shapley import ROUND, estimate, shapley


def loss_of(view, kept):
    """Mean loss of the physically smaller model that keeps the units listed."""
    mask = torch.zeros(len(view.heads), dtype=torch.bool)
    mask[list(kept)] = True
    smaller = remove_heads(view.model, mask, view.heads)
    with torch.no_grad():
        losses = [view.loss_of_logits(view.forward(smaller, batch), batch).double() for batch in view.batches]
    return torch.cat(losses).mean().item()


def exact(view):
    """Every subset of the other units, weighted as in Shapley (1953)."""
    units = range(len(view.heads))
    losses = {kept: loss_of(view, kept) for size in range(len(units) + 1) for kept in combinations(units, size)}
    values = []
    for unit in units:
        value = 0.0
        for kept in losses:
            if unit not in kept:
                weight = 1 / (len(units) * comb(len(units) - 1, len(kept)))
                value += weight * (losses[kept] - losses[tuple(sorted((*kept, unit)))])
        values.append(value)
    return torch.tensor(values, dtype=torch.float64)


def slow_sample(view, permutations, tolerance):
    """The same orders and their reverses, each prefix removed for good; one that has come near its end is left."""
    units = len(view.heads)
    most, least = loss_of(view, ()), loss_of(view, range(units))
    total = torch.zeros(units, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(units, generator=generator).tolist() for _ in range(permutations // 2)]
    for order in [*orders, *(order[::-1] for order in orders)]:
        losses = [loss_of(view, order[place:]) for place in range(units + 1)]
        for place, unit in enumerate(order):
            if place and abs(most - losses[place]) < tolerance * abs(most - least):
                break
            total[unit] += losses[place + 1] - losses[place]
    return total / permutations


def scene(tiny, architecture, seed=0, **texts):
    sentences = tiny.sentences(seed, count=4, **texts)
    batches = [tiny.batch(sentences[:2]), tiny.batch(sentences[2:], tiny.sides(architecture)[0], extra=1)]
    return tiny.view(tiny.model(architecture, seed, torch.float64), batches, tiny.unit(architecture))


@pytest.mark.parametrize("tolerance", [0.0, 0.3])
def test_prefixes_of_orders_on_smaller_models(tiny, architecture, tolerance):
    view = scene(tiny, architecture)
    values, _, count = estimate(view, permutations=6, error=0.0, tolerance=tolerance)
    assert count == 6
    torch.testing.assert_close(values, slow_sample(view, 6, tolerance), rtol=1e-5, atol=1e-8)


def test_truncation_spares_work(tiny):
    costs = []
    for tolerance in (0.0, 0.5):
        view = scene(tiny, "bert")
        with counting(view.model) as passes:
            estimate(view, permutations=6, error=0.0, tolerance=tolerance)
        costs.append(passes.forward)
    assert costs[1] < costs[0] == view.examples * (2 + 6 * 7)


@pytest.mark.parametrize("few", ["albert", "llama-query"])
def test_the_estimate_is_within_its_error_of_the_definition(tiny, few):
    view = scene(tiny, few, seed=1)
    assert len(view.heads) == 4
    expected = exact(view)
    values, standard_error, count = estimate(view, permutations=60, error=0.0, tolerance=0.0)
    assert count == 60
    assert ((values - expected).abs() <= 4 * standard_error + 1e-7).all()
    assert standard_error.max() < 0.5 * expected.abs().max()
    assert values.sum().item() == pytest.approx(expected.sum().item(), rel=1e-5)  # what all units are worth together


def test_sampling_stops_at_the_error_asked_for(tiny):
    counts = []
    for error in (0.0, 0.15, 0.3, 1e9):
        values, standard_error, count = estimate(scene(tiny, "albert"), 64, error, 0.0)
        assert count == 64 or standard_error.max() <= error * values.abs().max()
        counts.append(count)
    assert counts[0] == 64 and counts[-1] == ROUND
    assert counts == sorted(counts, reverse=True) and len(set(counts)) > 2


def test_units_that_are_gone_do_not_play(tiny, architecture):
    view = scene(tiny, architecture, seed=2)
    kept = torch.arange(len(view.heads)) != 0
    with gated(view.model, kept, view.heads):
        values = shapley(tiny.view(view.model, view.batches, view.heads.unit, kept), permutations=9, tolerance=0.0)
    assert values[0] == 0
    everyone = kept.nonzero().flatten().tolist()
    assert values.sum().item() == pytest.approx(loss_of(view, ()) - loss_of(view, everyone), rel=1e-5)


def test_the_error_is_that_of_a_mean_over_pairs_of_an_order_and_its_reverse(tiny, monkeypatch):
    view, walked = tiny.random_view("bert"), []

    def walk(view, groups, orders, least, most, tolerance):
        walked.append(
            torch.rand(orders.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(walked)))
        )
        return walked[-1]

    monkeypatch.setattr("methods.shapley._walk", walk)
    values, error, number = estimate(view, 3 * ROUND, 0.0, 0.0)
    pairs = torch.cat([(both[: len(both) // 2] + both[len(both) // 2 :]) / 2 for both in walked]).numpy()
    assert number == 3 * ROUND == 2 * len(pairs)
    assert values.numpy() == pytest.approx(pairs.mean(0))
    assert error.numpy() == pytest.approx(pairs.std(0, ddof=1) / len(pairs) ** 0.5)
