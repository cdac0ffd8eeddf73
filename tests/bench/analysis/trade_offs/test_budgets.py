"""What meets a budget, and what is said of it: against a slow, obvious search and the statistics' own functions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.analysis.stats.pairs import difference, holm
from bench.analysis.trade_offs.budgets import (
    MOST,
    Budget,
    answer,
    evenly,
    loss_budgets,
    size_budgets,
    time_budgets,
    within,
)
from bench.analysis.trade_offs.fronts import front, fronts_of, random_points
from bench.analysis.trade_offs.levels import TradeOffs
from bench.analysis.trade_offs.points import Cost, Mean, Point, Unpruned
from bench.records.schema import TaskKey

COARSE = st.integers(0, 6).map(float)  # so that many are equal


def point(label: str, left: float, lost: float | np.ndarray, time: float = float("nan"), removed: float = 0.5) -> Point:
    losses = np.atleast_1d(np.asarray(lost, dtype=float))
    speedups = {} if np.isnan(time) else {8: Mean(1 / time)}
    return Point(label, removed, Mean(float(losses.mean())), left, 4 * left, speedups, (losses,))


def trade_offs_of(
    points: list[Point], controls: tuple[str, ...] = (), kinds: dict[str, str] | None = None
) -> TradeOffs:
    by_label: dict[str, tuple[Point, ...]] = {}
    for each in points:
        by_label[each.label] = (*by_label.get(each.label, ()), each)
    return TradeOffs(
        seeds={TaskKey("t", "d", "m"): tuple(range(len(points[0].losses[0])))},
        unpruned=Unpruned(90.0, 4.0, {8: 1.0}),
        points=by_label,
        kinds={label: (kinds or {}).get(label, "score") for label in by_label},
        costs=dict.fromkeys(by_label, Cost(1.0, 1.0)),
        controls=frozenset(controls),
        random=frozenset(controls),
        left_out={},
    )


@given(st.lists(st.tuples(COARSE, COARSE), max_size=12))
def test_the_front_is_what_no_other_point_beats(places):
    beaten = {i for i, (x, y) in enumerate(places) if any(a <= x and b <= y and (a < x or b < y) for a, b in places)}
    found = front([x for x, _ in places], [y for _, y in places])
    assert sorted(found) == sorted(set(range(len(places))) - beaten)
    assert [places[i] for i in found] == sorted(places[i] for i in found)


@given(st.lists(st.tuples(COARSE, COARSE, COARSE), min_size=1, max_size=5), COARSE)
def test_a_method_meets_a_budget_at_the_first_level_that_fits_or_the_last_before_it_loses_more(levels, most):
    points = [point("m", left, lost, time + 1) for left, lost, time in levels]
    for measure, place in (("left", 0), ("time", 2)):
        limit = most + place // 2  # times are at least 1
        fitting = [p for p, level in zip(points, levels, strict=True) if level[place] <= most]
        assert within(points, Budget(measure, limit, 8)) is (fitting[0] if fitting else None)
    last = None
    for each in points:
        if each.lost.value > most:
            break
        last = each
    assert within(points, Budget("lost", most)) is last


def test_what_was_not_timed_meets_no_budget_of_time():
    assert within([point("m", 0.5, 1.0)], Budget("time", 9.0, 8)) is None


def noisy(label: str, mean: float, seeds: int = 10, left: float = 0.5) -> Point:
    return point(label, left, mean + np.random.default_rng([len(label), seeds]).normal(0, 1, seeds))


def test_methods_are_compared_with_the_best_of_their_kind_as_pairs_with_holms_correction():
    points = [
        noisy("a", 1),
        noisy("bb", 1.1),
        noisy("ccc", 3),
        noisy("dddd", 9),
        noisy("random", 0),
        noisy("trained", 0),
    ]
    found = trade_offs_of(points, ("random",), {"trained": "trained"})
    answers = answer(found, Budget("left", 0.5))
    assert set(answers) == {"score", "trained"} and [fit.point.label for fit in answers["trained"]] == ["trained"]
    best, *others = answers["score"]
    own = {each.label: each for each in points[:4]}
    assert [fit.point.label for fit in (best, *others)] == sorted(own, key=lambda label: own[label].lost.value)
    assert (best.more, best.p) == (None, None)
    expected = [difference(fit.point.losses, best.point.losses) for fit in others]
    assert [fit.more for fit in others] == pytest.approx([each.mean for each in expected])
    assert [fit.p for fit in others] == pytest.approx(holm([each.p for each in expected]))
    assert [fit.shown_apart for fit in others] == [fit.p is not None and fit.p <= 0.05 for fit in others]
    assert others[-1].shown_apart and not others[0].shown_apart


def test_too_few_seeds_tell_nothing_apart():
    found = trade_offs_of([noisy("a", 1, 6), noisy("bb", 30, 6)])
    assert answer(found, Budget("left", 0.5))["score"][1].shown_apart  # six seeds do for one other method
    found = trade_offs_of([noisy("a", 1, 6), noisy("bb", 30, 6), noisy("ccc", 40, 6)])
    others = answer(found, Budget("left", 0.5))["score"][1:]
    assert all(fit.p is None and not fit.shown_apart for fit in others)  # and not for two


def test_a_budget_of_quality_prefers_what_is_small_and_compares_at_its_size():
    small = [noisy("small", 0.5, left=0.9), noisy("small", 4, left=0.6)]
    large = [noisy("larger", 0.1, left=0.9), noisy("larger", 8, left=0.6)]
    never = [noisy("never", 0.2, left=0.9)]
    found = trade_offs_of([*small, *large, *never])
    best, *others = answer(found, Budget("lost", 6.0))["score"]
    assert best.point is small[1] and {fit.point for fit in others} == {large[0], never[0]}
    fits = {fit.point.label: fit for fit in others}
    assert fits["larger"].more == pytest.approx(large[1].lost.value - small[1].lost.value)  # where both are as small
    assert fits["larger"].p == pytest.approx(difference(large[1].losses, small[1].losses).p)
    assert (fits["never"].more, fits["never"].p) == (None, None)
    assert answer(found, Budget("lost", -9.0)) == {}


def test_a_few_biases_more_do_not_make_a_method_that_loses_less_the_worse_one():
    plain = [noisy("plain", 1, left=0.9), noisy("plain", 5, left=0.6)]
    biased = [noisy("biased", 1, left=0.901), noisy("biased", 3, left=0.601), noisy("biased", 30, left=0.3)]
    best, other = answer(trade_offs_of([*plain, *biased]), Budget("lost", 9.0))["score"]
    assert (best.point, other.point) == (biased[1], plain[1])
    assert other.more == pytest.approx(plain[1].lost.value - biased[1].lost.value) and other.shown_apart


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=30))
@example([1.0, 0.99999])  # both are 1.0 as a budget states it
def test_budgets_of_size_are_few_fall_and_are_met(sizes):
    found = trade_offs_of([point(f"m{place}", size, 1.0) for place, size in enumerate(sizes)])
    budgets = size_budgets(found)
    assert 1 <= len(budgets) <= MOST
    assert all(one.most > other.most for one, other in pairwise(budgets))
    assert all(within([each], budgets[0]) for of in found.points.values() for each in of)
    assert all(answer(found, budget) for budget in budgets)


def test_a_size_that_most_methods_have_is_a_budget_beside_far_smaller_ones():
    heads, both = (0.961, 0.922, 0.883, 0.859), (0.883, 0.766, 0.649, 0.579)
    found = trade_offs_of([point("h", size, 1.0) for size in heads] + [point("b", size, 1.0) for size in both])
    assert [budget.most for budget in size_budgets(found)] == [0.961, 0.922, 0.883, 0.859, 0.766, 0.649, 0.579]


def test_random_choice_of_a_kind_is_the_control_that_loses_least():
    points = [point("r", 0.9, 2), point("s", 0.9, 1), point("t", 0.9, 5), point("a", 0.9, 0)]
    found = trade_offs_of(points, ("r", "s", "t"), {"t": "trained"})
    assert {own: of[0].label for own, of in random_points(found).items()} == {"score": "s", "trained": "t"}


def test_budgets_of_time_tell_points_apart_and_those_of_quality_are_points_or_shares():
    found = trade_offs_of([point("m", 0.5, 1.0, 0.93), point("n", 0.5, 1.0, 0.55)])
    assert [budget.most for budget in time_budgets(found, 8)] == [0.9, 0.8, 0.7, 0.6]
    assert time_budgets(found, 1) == []
    alike = trade_offs_of([point("m", 0.5, 1.0, 0.55), point("n", 0.5, 1.0, 0.55)])
    assert [budget.most for budget in time_budgets(alike, 8)] == [0.6]  # which tells none apart, but is one
    some = trade_offs_of([point("m", 0.9, 0.5), point("m", 0.5, 1.0, 0.93), point("n", 0.5, 1.0, 0.55)])
    assert time_budgets(some, 8) == time_budgets(found, 8)  # the level that was not timed says nothing
    assert [budget.most for budget in loss_budgets(found, accuracy=True)] == [1, 2, 5, 10]
    assert [budget.most for budget in loss_budgets(found, accuracy=False)] == pytest.approx([0.9, 1.8, 4.5, 9])


def test_fronts_are_of_each_kind_without_controls():
    points = [
        point("a", 0.9, 1, 0.9),
        point("a", 0.5, 3, 0.8),
        point("b", 0.9, 2),
        point("t", 0.9, 0),
        point("r", 0.1, 0),
    ]
    fronts = fronts_of(trade_offs_of(points, ("r",), {"t": "trained"}))
    assert fronts == {"parameters": {"score": [points[1], points[0]], "trained": [points[3]]},
                      "b8": {"score": [points[1], points[0]]}}  # fmt: skip


def test_on_a_front_sizes_that_are_one_budget_are_one_size():
    near = [point("a", 0.8, 5), point("b", 0.8004, 1), point("a", 0.4, 9), point("b", 0.4, 8.5)]
    fronts = fronts_of(trade_offs_of(near))["parameters"]["score"]
    assert fronts == [near[3], near[1]]  # the smaller of the two of 80 % is no smaller but for a few biases
    apart = [point("a", 0.8, 5), point("b", 0.83, 1), *near[2:]]
    assert fronts_of(trade_offs_of(apart))["parameters"]["score"] == [near[3], apart[0], apart[1]]


@given(st.lists(st.integers(), max_size=40), st.integers(2, 9))
def test_values_are_thinned_evenly(values, most):
    found = evenly(values, most)
    assert len(found) == min(len(values), most)
    assert not values or (found[0], found[-1]) == (values[0], values[-1])
    assert evenly(list(range(9)), 3) == [0, 4, 8]
