"""A layer that cannot run without any head keeps its best unit, whatever chooses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import transformers as t
from hypothesis import given
from hypothesis import strategies as st

from methods import METHODS, View
from methods.cahp import complementary
from methods.checks.tiny import LABELS, SIZES
from methods.contract.choosing import choose
from methods.contract.method import Method
from methods.contract.schedule import Schedule, trajectories
from methods.heads import HeadMap, UnsupportedArchitecture, remove_heads
from methods.recovery.choosing import select
from tests.fixtures.slow import slow_cases

OWN = sorted(name for name, method in METHODS.items() if method.base == name)  # variants run the code of these

VALUES = st.lists(st.integers(-4, 4), min_size=12, max_size=12)


@pytest.fixture(scope="module")
def view(tiny) -> View:
    """A StableLM with three layers of 4 units, whose attention cannot run without any head."""
    torch.manual_seed(0)
    own = {"hidden_size": 32, "num_hidden_layers": 3, "num_key_value_heads": 4}
    config = t.StableLmConfig(**{**SIZES, **LABELS, **own})
    model = t.StableLmForSequenceClassification(config).eval().requires_grad_(False)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias") or weight.dim() == 2:
                weight.normal_(std=0.4)
    found = tiny.view(model, [tiny.batch(tiny.sentences(0), extra=1)])
    assert found.heads.never_empty == (0, 1, 2) and found.heads.removable == 9
    return found


def without_the_last(ranked: list[int], layers: list[int]) -> list[int]:
    """The slow way: units go in this order, but none that is the last of its layer."""
    gone: list[int] = []
    for unit in ranked:
        if sum(layers[unit] == layer for layer in layers) - sum(layers[unit] == layers[each] for each in gone) > 1:
            gone.append(unit)
    return gone


@pytest.mark.slow
@given(
    scores=VALUES, inverse=st.booleans(), allocation=st.sampled_from(["global", "layer"]), recompute=st.integers(0, 5)
)
def test_an_order_ends_with_the_best_unit_of_each_layer(view, scores, inverse, allocation, recompute):
    values = torch.tensor(scores, dtype=torch.float64)
    # What a greedy schedule sees are the units left: each is known by the weights that it has.
    rows = {tuple(weights): place for place, weights in enumerate(_weights(view).tolist())}

    def score(view: View) -> torch.Tensor:
        return values[[rows[tuple(weights)] for weights in _weights(view).tolist()]]

    plan = Schedule(inverse=inverse, allocation=allocation, recompute=recompute)
    (path,) = trajectories(score, view, plan)
    order, layers = path.order.tolist(), view.heads.site_of_unit.tolist()
    assert sorted(order) == list(range(12))
    for layer, unit in zip(layers, range(12), strict=True):
        best = max((-scores[u] if inverse else scores[u]) for u in range(12) if layers[u] == layer)
        assert unit not in order[9:] or (-scores[unit] if inverse else scores[unit]) == best
    assert sorted(layers[unit] for unit in order[9:]) == [0, 1, 2]
    if allocation == "global":
        sign = -1 if inverse else 1
        ranked = sorted(range(12), key=lambda unit: (sign * scores[unit], unit))
        assert order[:9] == without_the_last(ranked, layers)


@pytest.mark.parametrize(("recompute", "scored"), [(1, [*range(12, 3, -1)]), (4, [12, 8, 4]), (9, [12]), (12, [12])])
def test_units_that_stay_are_not_scored_by_themselves(view, recompute, scored):
    """Nothing depends on their importance, and they end the order by index."""
    seen = []

    def score(view: View) -> torch.Tensor:
        seen.append(len(view.heads))
        return -torch.arange(len(view.heads)).double()

    (path,) = trajectories(score, view, Schedule(recompute=recompute))
    assert seen == scored and len(path.scores) == len(scored)
    assert path.order.tolist() == [11, 10, 9, 7, 6, 5, 3, 2, 1, 0, 4, 8] and path.ties == 0


def test_a_model_of_which_nothing_may_go_is_not_scored(view):
    kept = torch.tensor([1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0]).bool()
    (path,) = trajectories(lambda view: 1 / 0, replace(view, kept=kept), Schedule(recompute=1))
    assert path.order.tolist() == [0, 6, 9] and path.scores is None


def _weights(view: View) -> torch.Tensor:
    """The first row of the query projection of each unit that is left, (units, width)."""
    return torch.stack(
        [
            view.model.get_submodule(site.projections["query"]).weight[site.rows("query", list(unit.heads))[0]]
            for unit in view.heads.units
            for site in [view.heads.sites[unit.site]]
        ]
    )


@given(scores=VALUES, keep=st.integers(3, 12))
def test_the_best_units_have_one_in_each_layer(view, scores, keep):
    layers = view.heads.site_of_unit.tolist()
    ranked = sorted(range(12), key=lambda unit: (-scores[unit], unit))[::-1]
    gone = without_the_last(ranked, layers)[: 12 - keep]
    mask = view.heads.best(torch.tensor(scores), keep)
    assert (~mask).nonzero().flatten().tolist() == sorted(gone)
    left = torch.arange(12) != 4
    among = view.heads.best(torch.tensor(scores), 3, left)
    assert not among[4] and among.sum() == 3 and view.heads.site_of_unit[among].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", [*OWN, *slow_cases(*sorted(METHODS.keys() - OWN))])
def test_every_method_keeps_one_unit_of_each_layer(view, name):
    method = METHODS[name]
    options = method.configure({})
    splits = method.splits_budget(options)
    for draw in select(method, options, view, [0, 5, view.heads.removable]).choices:
        for removed, choice in zip([0, 5, 9], draw, strict=True):
            assert method.control or splits or choice.neurons is not None or choice.removed == removed
            view.heads.check_never_empty(choice.mask)
            with torch.no_grad():
                choice.smaller()(**view.batches[0].inputs)


def test_kwon_splits_a_budget_over_what_may_go(view):
    method = METHODS["kwon"]
    options = method.configure({"parts": "both"})
    (choices,) = select(method, options, view, [0, 5, 9]).choices
    for choice in choices:
        view.heads.check_never_empty(choice.mask)
    assert choices[-1].removed > 0


@given(
    importance=st.lists(st.floats(0, 1), min_size=8, max_size=8),
    keep=st.integers(2, 8),
    places=st.lists(st.floats(0, 9), min_size=8, max_size=8, unique=True),
)
def test_clusters_leave_one_in_each_layer_that_is_never_empty(importance, keep, places):
    at = torch.tensor(places, dtype=torch.float64)[:, None]
    layers = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    chosen = complementary(torch.cdist(at, at), torch.tensor(importance), layers, keep, never_empty=(1, 3))
    assert len(set(chosen)) == keep and {1, 3} <= set(layers[chosen].tolist())


def test_more_than_can_go_is_one_line(view):
    with pytest.raises(
        ValueError, match=r"^10 units cannot be removed: 9 of 12 can, as 3 attention modules cannot run"
    ):
        next(choose(METHODS["michel"], METHODS["michel"].configure({}), view, [0, 10]))


def test_a_mask_that_empties_such_a_layer_is_one_line(view):
    method = Method("m", "selector", lambda view, keep: torch.arange(12) < keep, {}, "test", False, "m")
    with pytest.raises(
        ValueError, match=r"mask keeps no unit of model\.layers\.2\.self_attn, which cannot run"
    ) as error:
        next(choose(method, {}, view, [6]))
    assert "\n" not in str(error.value)
    with pytest.raises(UnsupportedArchitecture, match="cannot run without any head: keep a head"):
        remove_heads(view.model, torch.arange(12) < 6)


def test_a_layer_that_has_lost_its_heads_is_not_asked_for_one(tiny):
    model = tiny.model("bert")
    assert HeadMap.of(model).never_empty == ()
    heads = replace(HeadMap.of(model), sites=tuple(replace(site, never_empty=True) for site in HeadMap.of(model).sites))
    assert heads.never_empty == (0, 1)
    empty = replace(heads, sites=(replace(heads.sites[0], num_heads=0), heads.sites[1]), units=heads.units[4:])
    assert empty.never_empty == (1,) and empty.removable == 3
