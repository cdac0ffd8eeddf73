"""What methods may return, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
from functools import partial

import numpy as np
import pytest
import torch

from methods import METHODS, Importance, Trained, View
from methods.contract.choosing import MethodError, choose, select
from methods.contract.method import Method
from methods.heads import HeadMap, find_mlps

REMOVED = (0, 3, 8)


@pytest.fixture
def view(tiny_task) -> View:
    heads = HeadMap.of(tiny_task.model)
    generator = torch.Generator().manual_seed(0)
    return View(tiny_task.model, heads, [], heads.full_mask(), generator, tiny_task.task.logits, tiny_task.task.loss)


@pytest.fixture
def scorer():
    return lambda function: Method("m", "scorer", function, {}, "test", False, "m")


@pytest.fixture
def selector():
    return lambda function: Method("m", "selector", function, {}, "test", False, "m")


@pytest.fixture
def joint():
    return lambda function: Method("m", "joint", function, {}, "test", False, "m")


def trained(view: View, budgets, model=None):
    """The first units for each budget, with ``model`` or a copy made for each."""
    for keep in budgets:
        yield Trained(torch.arange(8) < keep, model or copy.deepcopy(view.model), {"kept": keep})


def hooked(view: View, budgets):
    """The same, with a hook that training left."""
    for each in trained(view, budgets):
        each.model.bert.encoder.register_forward_hook(lambda *_: None)
        yield each


def changed(view: View, budgets, **fields):
    """The same, with other fields."""
    return (dataclasses.replace(each, **fields) for each in trained(view, budgets))


def test_masks_of_a_scorer_are_nested_and_follow_its_order(scorer, view):
    chosen = select(scorer(lambda view: -torch.arange(8.0)), {}, view, REMOVED)
    assert chosen.orders == [[7, 6, 5, 4, 3, 2, 1, 0]]
    assert chosen.masks.shape == (1, 3, 8)
    assert [mask.nonzero().flatten().tolist() for mask in chosen.masks[0]] == [list(range(8)), [0, 1, 2, 3, 4], []]


def test_every_draw_of_a_random_scorer_has_an_order(scorer, view):
    chosen = select(scorer(lambda view: torch.rand(5, 8, generator=view.generator)), {}, view, REMOVED)
    assert chosen.masks.shape == (5, 3, 8)
    assert chosen.masks.sum(2).tolist() == [[8, 5, 0]] * 5


def test_a_selector_is_called_for_every_budget(selector, view):
    budgets = []

    def choose(view: View, keep: int) -> torch.Tensor:
        budgets.append(keep)
        return torch.arange(8) < keep

    chosen = select(selector(choose), {}, view, REMOVED)
    assert budgets == [8, 5, 0]
    assert chosen.orders is None and chosen.masks.sum(2).tolist() == [[8, 5, 0]]


def test_a_mask_that_misses_its_budget_is_refused(selector, view):
    with pytest.raises(ValueError, match="mask keeps 8 units, the budget is 5"):
        select(selector(lambda view, keep: torch.ones(8, dtype=torch.bool)), {}, view, REMOVED)


@pytest.mark.parametrize(
    "mask", [torch.ones(7, dtype=torch.bool), torch.ones(1, 8, dtype=torch.bool), torch.ones(8), torch.ones(8).long()]
)
def test_a_mask_of_another_shape_or_dtype_is_refused(selector, view, mask):
    with pytest.raises(ValueError, match=r"expected \(8,\) bool"):
        select(selector(lambda view, keep: mask), {}, view, REMOVED)


def test_an_importance_of_another_shape_is_refused(scorer, view):
    with pytest.raises(ValueError, match=r"importance of shape \(7,\)"):
        select(scorer(lambda view: torch.ones(7)), {}, view, REMOVED)


@pytest.mark.parametrize("recompute", [0, 3])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1.0] * 8, r"the importance is a list, expected a tensor of shape \(8,\)"),
        (np.ones(8), r"the importance is a ndarray, expected a tensor of shape \(8,\)"),
        (torch.ones(8, dtype=torch.complex64), "the importance is of torch.complex64, expected real numbers"),
    ],
)
def test_an_importance_that_is_no_tensor_of_real_numbers_is_refused(scorer, view, given, said, recompute):
    with pytest.raises(ValueError, match=said):
        select(scorer(lambda view: given), {"recompute": recompute}, view, REMOVED)


@pytest.mark.parametrize("given", [lambda width: [1.0] * width, lambda width: torch.ones(width, dtype=torch.cfloat)])
def test_importances_of_neurons_are_checked_likewise(scorer, view, given):
    neurons = {mlp.name: given(mlp.width) for mlp in find_mlps(view.model)}
    with pytest.raises(ValueError, match=r"the importance of neurons of \S+ is (a list|of torch.complex64), expected "):
        select(scorer(lambda view: Importance(None, neurons)), {}, view, REMOVED)


@pytest.mark.parametrize("shape", [lambda width: (), lambda width: (width + 1,), lambda width: (2, 3, width)])
def test_importances_of_neurons_have_one_entry_for_each(scorer, view, shape):
    neurons = {mlp.name: torch.ones(shape(mlp.width)) for mlp in find_mlps(view.model)}
    with pytest.raises(ValueError, match=r"importance of neurons of \S+ of shape \(.*\), expected \(\d+,\)"):
        select(scorer(lambda view: Importance(None, neurons)), {}, view, REMOVED)


def test_recovery_and_neurons_of_a_selector_are_asked_for_elsewhere(view):
    for name, options in ("kwon", {}), ("kwon", {"recover": "none", "parts": "both"}), ("michel", {"recover": "bias"}):
        method = METHODS[name]
        with pytest.raises(ValueError, match=f"{name}.*: use methods.recovery.choosing"):
            select(method, method.configure(options), view, REMOVED)


def test_a_method_may_go_on_with_a_mask_that_it_has_returned(selector, joint, view):
    """As one does that switches units off one by one."""
    own = torch.ones(8, dtype=torch.bool)

    def greedy(view: View, keep: int) -> torch.Tensor:
        own[keep:] = False
        return own

    chosen = select(selector(greedy), {}, view, REMOVED)
    assert chosen.masks.sum(2).tolist() == [[8, 5, 0]]
    own[:] = True
    neurons = {mlp.name: torch.ones(mlp.width, dtype=torch.bool) for mlp in find_mlps(view.model)}

    def trained_so(view: View, budgets):
        for keep in budgets:
            for mask in neurons.values():
                mask[keep:] = False
            yield Trained(greedy(view, keep), copy.deepcopy(view.model), neurons=neurons)

    chosen = select(joint(trained_so), {}, view, REMOVED)
    assert chosen.masks.sum(2).tolist() == [[8, 5, 0]]
    assert [{int(kept.sum()) for kept in choice.neurons.values()} for choice in chosen.choices[0][1:]] == [{5}, {0}]


@pytest.mark.parametrize("mask", [torch.arange(3), torch.ones(7, dtype=torch.bool), [True] * 48])
def test_a_mask_of_neurons_of_another_shape_or_dtype_is_refused(joint, view, mask):
    (name, *_) = (mlp.name for mlp in find_mlps(view.model))
    with pytest.raises(ValueError, match=rf"neurons of {name}: .*, expected \(\d+,\) bool"):
        select(joint(lambda view, budgets: changed(view, budgets, neurons={name: mask})), {}, view, REMOVED)


def test_choices_are_nested_where_each_keeps_part_of_the_one_before(selector, view):
    """By that the smaller models of a curve are made each from the one before."""
    nested = selector(lambda view, keep: torch.arange(8) < keep)
    crossing = selector(lambda view, keep: torch.arange(8) < keep if keep != 5 else torch.arange(8) >= 3)
    assert [next(choose(method, {}, view, [0, 3, 5])).nested for method in (nested, crossing)] == [True, False]


def test_a_mask_that_is_a_list_is_refused(selector, view):
    with pytest.raises(ValueError, match=r"mask is a list, expected a bool tensor of shape \(8,\)"):
        select(selector(lambda view, keep: [True] * keep), {}, view, REMOVED)


def test_options_go_to_the_method_or_to_its_schedule(scorer, view):
    given = {}

    def score(view: View, **own) -> torch.Tensor:
        given.update(own)
        return torch.arange(8.0)

    chosen = select(scorer(score), {"power": 2, "inverse": True, "recompute": 0}, view, REMOVED)
    assert given == {"power": 2}
    assert chosen.orders == [[7, 6, 5, 4, 3, 2, 1, 0]]


def test_a_joint_method_trains_a_model_for_each_budget_but_the_whole(joint, view):
    chosen = select(joint(trained), {}, view, REMOVED)
    whole, some, none = chosen.choices[0]
    assert whole.model is view.model and whole.mask.all()
    assert some.model is not view.model and none.model is not some.model
    assert chosen.masks.sum(2).tolist() == [[8, 5, 0]] and chosen.orders is None
    assert [choice.report for choice in (whole, some, none)] == [{}, {"kept": 5}, {"kept": 0}]


def test_a_joint_method_that_misses_a_budget_is_refused(joint, view):
    with pytest.raises(ValueError, match="gave results for 1 of 2 budgets"):
        select(joint(lambda view, budgets: list(trained(view, budgets))[:1]), {}, view, REMOVED)
    with pytest.raises(ValueError, match="mask keeps 8 units, the budget is 5"):
        select(joint(lambda view, budgets: trained(view, [8, 8])), {}, view, REMOVED)
    with pytest.raises(ValueError, match="gave more results than the 2 budgets"):
        select(joint(lambda view, budgets: trained(view, [*budgets, 0])), {}, view, REMOVED)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda view, budgets: None, "returned None, expected an iterator of Trained"),
        (lambda view, budgets: [(view.heads.full_mask(), view.model)], "gave a tuple, expected a Trained"),
        (hooked, "gave a model with forward hooks of bert.encoder: "),
        (lambda view, budgets: trained(view, budgets, view.model.bert), "the head map is not of this BertModel"),
        (
            lambda view, budgets: changed(view, budgets, model=copy.deepcopy(view.model).train()),
            "in training mode: call",
        ),
        (
            lambda view, budgets: changed(view, budgets, report={"x": float("nan")}),
            "reported x = nan, expected a finite",
        ),
        (
            lambda view, budgets: changed(view, budgets, neurons={"x": torch.ones(3).bool()}),
            "neurons of x, which is no",
        ),
    ],
)
def test_a_joint_method_that_gives_something_else_is_told_what(joint, view, given, said):
    with pytest.raises(ValueError, match=said):
        select(joint(given), {}, view, REMOVED)


def test_a_joint_method_may_remove_neurons_with_its_units_or_instead_of_them(joint, view):
    neurons = {mlp.name: torch.arange(mlp.width) > 2 for mlp in find_mlps(view.model)}

    def both(view, budgets, units=True):
        for each in trained(view, budgets):
            yield dataclasses.replace(each, mask=each.mask if units else view.heads.full_mask(), neurons=neurons)

    for units, left in ((True, [8, 5, 0]), (False, [8, 8, 8])):
        chosen = select(joint(partial(both, units=units)), {}, view, REMOVED)
        assert chosen.masks.sum(2).tolist() == [left]
        whole, *some = chosen.choices[0]
        assert whole.neurons is None and all(choice.neurons.keys() == neurons.keys() for choice in some)
        assert all(torch.equal(kept, neurons[name]) for choice in some for name, kept in choice.neurons.items())
        for choice, keep in zip(some, left[1:], strict=True):
            assert [mlp.width for mlp in find_mlps(choice.smaller())] == [int(m.sum()) for m in neurons.values()]
            assert sum(site.num_heads for site in HeadMap.of(choice.smaller()).sites) == keep
    with pytest.raises(ValueError, match="mask keeps 6 units, the budget is 5"):
        select(joint(lambda view, budgets: both(view, [6, 8])), {}, view, REMOVED)


def test_a_scorer_of_neurons_alone_has_no_order_of_units(scorer, view):
    neurons = {mlp.name: torch.rand(mlp.width) for mlp in find_mlps(view.model)}
    chosen = select(scorer(lambda view: Importance(None, neurons)), {}, view, REMOVED)
    assert chosen.orders is None and chosen.masks.all()
    assert [sum(int(kept.sum()) for kept in c.neurons.values()) for c in chosen.choices[0]] == [
        sum(len(scores) * (8 - gone) // 8 for scores in neurons.values())
        for gone in REMOVED  # 48 neurons each
    ]


def test_a_missing_file_of_a_method_is_not_taken_for_a_full_disk(scorer, view):
    def score(view: View) -> torch.Tensor:
        raise FileNotFoundError(2, "No such file or directory", "scores.npy")

    with pytest.raises(MethodError, match=r"FileNotFoundError: .*scores\.npy"):
        select(scorer(score), {}, view, REMOVED)
