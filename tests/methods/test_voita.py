"""Hard concrete gates: one training per weight of the penalty, and for each budget the one that comes closest."""

from __future__ import annotations

import dataclasses
import sys
import weakref
from itertools import pairwise

import pytest
import torch

from methods import METHODS, OptionError
from methods.voita import _initial

METHOD = METHODS["voita"]


def train(view, budgets, **options):
    return list(METHOD.function(view, budgets, **METHOD.configure(options)))


def view_with(tiny, steps):
    view = tiny.random_view("bert")
    return dataclasses.replace(view, training=dataclasses.replace(view.training, steps=steps))


def opened(report):
    return {float(name.removeprefix("open_at_")): count for name, count in report.items() if name.startswith("open_at")}


def test_every_budget_is_met(tiny, architecture):
    view = tiny.random_view(architecture)
    budgets = list(range(len(view.heads) + 1))
    found = train(view, budgets, weights=2)
    assert [int(each.mask.sum()) for each in found] == budgets
    assert all(each.model is not view.model for each in found)


def test_one_training_for_each_weight_serves_the_nearest_budgets(tiny):
    """Without a task, the penalty alone decides: a weight that is too small for Adam to see leaves all gates open."""
    view = view_with(tiny, 40)
    indifferent = dataclasses.replace(view, loss_of_logits=lambda logits, batch: 0 * logits.sum(1))
    found = train(indifferent, [8, 5, 4, 3, 0], weakest=1e-12, spread=1e12, weights=2, most=2)
    assert [opened(each.report) for each in found] == [{1e-12: 8, 1.0: 0}] * 5
    assert [each.report["open"] for each in found] == [8, 8, 8, 0, 0]  # on a tie, the weaker penalty
    assert [each.report["off_by"] for each in found] == [0, 3, 4, 3, 0]
    assert [each.report["weight"] for each in found] == pytest.approx([1e-12] * 3 + [1.0] * 2)
    assert found[0].model is found[1].model is found[2].model is not found[3].model is found[4].model


@pytest.mark.slow
def test_weights_between_those_of_the_grid_are_tried_while_a_budget_is_missed(tiny):
    indifferent = dataclasses.replace(view_with(tiny, 40), loss_of_logits=lambda logits, batch: 0 * logits.sum(1))
    coarse, fine = (
        train(indifferent, [3], weakest=1e-12, spread=1e12, weights=2, most=most)[0].report for most in (2, 8)
    )
    assert coarse["off_by"] == 3 and len(opened(coarse)) == 2
    assert fine["off_by"] < coarse["off_by"] and 2 < len(opened(fine)) <= 8


def test_only_the_trainings_that_a_budget_takes_are_held(tiny, monkeypatch):
    held = []
    module = sys.modules[METHOD.function.__module__]
    train_gates = module.train_gates

    def counting(*args, **options):
        held.append(sum(reference() is not None for reference in trained))
        model, trace = train_gates(*args, **options)
        trained.append(weakref.ref(model))
        return model, trace

    trained = []
    monkeypatch.setattr(module, "train_gates", counting)
    train(view_with(tiny, 1), [4], weights=5)
    assert max(held) <= 1


def test_it_can_start_where_the_tasks_own_training_did(tiny):
    view, first = view_with(tiny, 3), tiny.model("bert", seed=7)
    from_there = dataclasses.replace(view.training, initial=first.state_dict())
    (found,) = train(dataclasses.replace(view, training=from_there), [4], weights=1, start="pretrained")
    (expected,) = train(dataclasses.replace(view_with(tiny, 3), model=first), [4], weights=1)
    assert torch.equal(found.mask, expected.mask)
    for name, value in expected.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], value)


def test_the_largest_gates_stay(tiny):
    nested = [each.mask for each in train(view_with(tiny, 2), range(9), weights=1)]
    assert all((more >= less).all() for less, more in pairwise(nested))


def test_weights_are_evenly_spaced_in_their_logarithm(tiny):
    (found,) = train(view_with(tiny, 1), [4], weakest=0.01, spread=1e3, weights=4)
    assert sorted(opened(found.report)) == pytest.approx([0.01, 0.1, 1.0, 10.0])
    (found,) = train(view_with(tiny, 1), [4], weakest=0.01, weights=1)
    assert sorted(opened(found.report)) == [0.01]


@pytest.mark.parametrize(
    ("most", "expected"), [(1, [0.01]), (2, [0.01, 10.0]), (3, [0.01, 10**-0.5, 10.0]), (4, [0.01, 0.1, 1.0, 10.0])]
)
def test_the_grid_has_the_whole_spread_also_where_fewer_weights_may_be_tried(tiny, most, expected):
    (found,) = train(view_with(tiny, 1), [4], weakest=0.01, spread=1e3, weights=4, most=most)
    assert sorted(opened(found.report)) == pytest.approx(expected, rel=1e-2)  # names have three digits


def test_a_training_does_not_depend_on_the_budgets_or_the_other_weights(tiny):
    (alone,) = train(view_with(tiny, 3), [3], weakest=0.1, spread=1, weights=1)
    among = train(view_with(tiny, 3), [6, 3], weakest=0.1, spread=1, weights=2)[1]
    assert torch.equal(alone.mask, among.mask)
    for name, value in alone.model.state_dict().items():
        assert torch.equal(value, among.model.state_dict()[name])


def test_a_spread_below_one_is_refused():
    with pytest.raises(OptionError, match=r"spread=0\.1: expected a number, at least 1"):
        METHODS["voita"].configure({"spread": 0.1})


def test_without_budgets_nothing_is_trained(tiny):
    assert train(dataclasses.replace(view_with(tiny, 1), forward=None), []) == []


def test_initial_gates_are_uniform_within_glorots_bound_for_a_layer(tiny):
    heads = tiny.random_view("bert").heads
    draws = torch.stack([_initial(heads, torch.Generator().manual_seed(seed)).detach() for seed in range(50)])
    bound = (3 / heads.shape[0]) ** 0.5
    assert 0.97 * bound < draws.abs().max() <= bound and draws.min() < -0.9 * bound and draws.max() > 0.9 * bound
