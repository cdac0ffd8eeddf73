"""Gradients along the path of a closing gate: slopes at each point, text by text, and what they add up to."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench.measure.cost import counting
from methods import METHODS, OptionError
from methods.calibration.quadratic import fit_quadratic
from methods.heads import gated
from methods.michel import michel
from methods.path import _at_random_gates, path
from tests.fixtures.slow import slow_cases

STEP = 1e-5


def slope(view, text, gates, unit):
    """Of the loss in one gate, by central differences."""
    losses = []
    for change in (STEP, -STEP):
        moved = gates.clone()
        moved[unit] += change
        with torch.no_grad(), gated(view.model, moved, view.heads):
            losses.append(view.loss(text).item())
    return (losses[0] - losses[1]) / (2 * STEP)


@pytest.mark.parametrize(
    ("along", "signed"), [("layer", False), ("all", True), *slow_cases(("layer", True), ("all", False))]
)
def test_slopes_at_midpoints_of_each_text(tiny, architecture, along, signed):
    points, sentences = 3, tiny.sentences(0, count=4)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=1), tiny.batch(sentences[3:], second)]
    view = tiny.view(tiny.model(architecture, 0, torch.float64), batches, tiny.unit(architecture))
    expected = torch.zeros(len(view.heads), dtype=torch.float64)
    for text in tiny.alone(sentences):
        for number, unit in enumerate(view.heads.units):
            mine = view.heads.site_of_unit == unit.site if along == "layer" else torch.ones(len(view.heads)).bool()
            slopes = [
                slope(view, text, torch.where(mine, value, 1.0).double(), number) for value in (1 / 6, 3 / 6, 5 / 6)
            ]
            integral = sum(slopes) / points
            expected[number] += (-integral if signed else abs(integral)) / len(sentences)
    found = path(view, along=along, points=points, rounds=1, signed=signed)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_with_all_gates_together_importances_add_up_to_the_rise_of_the_loss(tiny, architecture):
    view = tiny.view(
        tiny.model(architecture, 0, torch.float64), [tiny.batch(tiny.sentences(0))], tiny.unit(architecture)
    )
    losses = []
    for value in (1.0, 0.0):
        with torch.no_grad(), gated(view.model, torch.full((len(view.heads),), value), view.heads):
            losses.append(view.loss(view.batches[0]).mean().item())
    total = path(view, along="all", points=100, rounds=1).sum().item()
    assert total == pytest.approx(losses[1] - losses[0], abs=2e-3)


@pytest.mark.slow
def test_random_gates_come_near_the_shapley_values_of_products_of_gates(tiny, monkeypatch):
    """Each product is halved between its two units."""
    view = tiny.view(tiny.model("bert"), [tiny.batch(tiny.sentences(0, count=6))])
    generator = torch.Generator().manual_seed(0)
    single = torch.randn(8, dtype=torch.float64, generator=generator)
    pairs = torch.randn(8, 8, dtype=torch.float64, generator=generator).triu(1)

    def gradients(view, batch, gates):
        gates = gates.double().requires_grad_()
        loss = -(single @ gates) - torch.einsum("ub,uv,vb->b", gates, pairs, gates)
        return torch.autograd.grad(loss.sum(), gates)[0]

    monkeypatch.setattr("methods.path.gradients_at", gradients)
    found = path(view, along="random", points=3000, rounds=1)
    torch.testing.assert_close(found, single + (pairs.sum(0) + pairs.sum(1)) / 2, rtol=0, atol=0.05)


def test_where_the_loss_is_linear_on_the_whole_path_it_is_the_gradient_at_the_open_gate(tiny, architecture):
    view = tiny.view(
        tiny.model(architecture, 0, torch.float64), [tiny.batch(tiny.sentences(0))], tiny.unit(architecture)
    )
    with torch.no_grad():
        for site in view.heads.sites:
            view.model.get_submodule(site.output).weight *= 1e-6  # heads that hardly matter
    found = path(view, along="layer", rounds=1, signed=False)
    torch.testing.assert_close(found, michel(view), rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("along", ["layer", "all"])
def test_rounds_score_again_with_the_least_important_gone(tiny, architecture, along):
    """The slow way: one round on the model with gates of zero on what is gone."""
    view = tiny.random_view(architecture, 1, torch.float64)
    units, rounds = len(view.heads), 3
    kept, expected = torch.ones(units, dtype=torch.bool), []
    for number in range(rounds):
        with gated(view.model, kept, view.heads):
            scores = path(view, along=along, rounds=1)
        left = [unit for unit in scores.argsort().tolist() if kept[unit]]
        gone = left[: units * (number + 1) // rounds - len(expected)]
        expected += gone
        kept[gone] = False
    found = path(view, along=along, rounds=rounds)
    assert found.argsort().tolist() == expected and found.sort().values.tolist() == list(range(units))


@pytest.mark.parametrize("rounds", [2, *slow_cases(1)])
def test_the_order_is_that_of_a_quadratic_model_of_the_slopes(tiny, architecture, monkeypatch, rounds):
    """Slopes by central differences, text by text; the model is evaluated afresh for every set of units gone."""
    sentences = tiny.sentences(0, count=3)
    view = tiny.view(tiny.model(architecture, 0, torch.float64), tiny.alone(sentences), tiny.unit(architecture))
    taken = []  # gates of a pass, and the slopes found there

    def gradients(view, batch, gates):
        found = torch.tensor([[slope(view, batch, gates[:, 0].double(), unit)] for unit in range(len(view.heads))])
        taken.append((gates[:, 0].double(), found[:, 0].double()))
        return found.double()

    monkeypatch.setattr("methods.path.gradients_at", gradients)
    points = 4
    found = path(view, points=points, rounds=rounds)
    assert len(taken) == rounds * points * len(sentences)
    units, order = len(view.heads), []
    for number, some in enumerate(torch.arange(len(taken)).chunk(rounds)):
        left = [unit for unit in range(units) if unit not in order]
        closed = torch.stack([1 - taken[place][0][left] for place in some])
        first, second = fit_quadratic(closed, -torch.stack([taken[place][1][left] for place in some]))
        gone = torch.zeros(len(left), dtype=torch.float64)

        def rise(gone, first=first, second=second):
            return first @ gone + gone @ second @ gone / 2

        for _ in range(units * (number + 1) // rounds - len(order)):
            best = min((rise(gone.index_fill(0, torch.tensor(u), 1.0)), u) for u in range(len(left)) if not gone[u])[1]
            gone[best] = 1
            order.append(left[best])
    assert found.argsort().tolist() == order


def test_the_order_of_units_that_stand_in_for_each_other(tiny, monkeypatch):
    """Each of units 0 and 1 costs little while the other is there: one goes first, the other last."""
    view = tiny.view(tiny.model("bert"), [tiny.batch(tiny.sentences(0, count=6))])

    def gradients(view, batch, gates):
        gates = gates.double().requires_grad_()
        single = torch.tensor([0.1, 0.1, 5, 6, 7, 8, 9, 10], dtype=torch.float64)
        loss = single @ (1 - gates) + 20 * (1 - gates[0]) * (1 - gates[1])
        return torch.autograd.grad(loss.sum(), gates)[0]

    monkeypatch.setattr("methods.path.gradients_at", gradients)
    order = path(view, points=30, rounds=1).argsort().tolist()
    assert order[0] in (0, 1) and order[1:7] == [2, 3, 4, 5, 6, 7] and order[7] in (0, 1)


@pytest.mark.parametrize("rounds", [1, 3, 50])
@pytest.mark.parametrize("along", ["order", "layer", "all", "random"])
def test_passes(tiny, along, rounds):
    view = tiny.random_view("bert")
    with counting(view.model) as passes:
        path(view, along=along, points=2, rounds=rounds)
    scored = min(rounds, len(view.heads))
    assert passes.forward == view.examples * 2 * scored * (len(view.heads.sites) if along == "layer" else 1)
    assert passes.backward == passes.forward


def test_units_gone_already_stay_closed(tiny):
    view = tiny.random_view("bert", 2, torch.float64)
    kept = view.kept.index_fill(0, torch.tensor([1, 6]), False)
    with gated(view.model, kept, view.heads):
        found = path(replace(view, kept=kept))
    assert sorted(found[kept].tolist()) == list(range(6))


@pytest.mark.parametrize("along", ["order", "random"])
def test_random_gates_do_not_depend_on_how_texts_are_batched(tiny, along):
    sentences, model = tiny.sentences(7, count=5), tiny.model("bert", 0, torch.float64)
    found = [
        path(tiny.view(model, batches), along=along, rounds=1)
        for batches in (tiny.alone(sentences), [tiny.batch(sentences[3:], extra=1), tiny.batch(sentences[:3])])
    ]
    torch.testing.assert_close(*found)


def test_an_order_is_signed():
    with pytest.raises(OptionError, match="signed=false goes with"):
        METHODS["path"].configure({"signed": "false"})
    assert METHODS["path"].configure({"signed": "false", "along": "all"})["signed"] is False


def test_gates_are_closed_by_up_to_twice_what_a_round_removes(tiny, monkeypatch):
    view, shares = tiny.random_view("bert"), []

    def spy(view, left, points, share):
        shares.append((int(left.sum()), share))
        return _at_random_gates(view, left, points, share)

    monkeypatch.setattr("methods.path._at_random_gates", spy)
    path(view, along="order", rounds=4)
    assert shares == [(8, 4 / 8), (6, 4 / 6), (4, 1.0), (2, 1.0)]
