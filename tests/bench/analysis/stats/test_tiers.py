"""Tiers, and the step-down test behind them against its definition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bench.analysis.stats.pairs import task_weights
from bench.analysis.stats.signflip import sign_flip_p
from bench.analysis.stats.tiers import shown_better, tiers

points = st.integers(0, 12).map(lambda value: value / 4)
tasks = st.tuples(st.integers(1, 4), st.lists(st.integers(1, 3), min_size=1, max_size=2)).flatmap(
    lambda size: st.tuples(*(arrays(float, (size[0], seeds), elements=points) for seeds in size[1]))
)  # (methods, seeds) of each task


def stepped_down(scores: Sequence[np.ndarray], margin: float) -> dict[tuple[int, int], float]:
    """Westfall & Young's step-down maxima, written out; a sign belongs to one seed of one task."""
    d = {
        (i, j): np.concatenate([(task[i] - task[j] - margin) / task.shape[1] for task in scores])
        for i, j in permutations(range(len(scores[0])), 2)
    }

    def statistic(values: np.ndarray, signs) -> float:
        size = np.sqrt(np.sum(values**2))
        return float(np.sum(values * signs) / size) if size else 0.0

    observed = {pair: statistic(values, 1) for pair, values in d.items()}
    p, highest = {}, 0.0
    for pair in sorted(d, key=lambda pair: -observed[pair]):
        rest = [other for other in d if observed[other] <= observed[pair] + 1e-9]
        hits = [
            max(statistic(d[other], np.array(signs)) for other in rest) >= observed[pair] - 1e-9
            for signs in product((1, -1), repeat=sum(task.shape[1] for task in scores))
        ]
        highest = max(highest, float(np.mean(hits)))
        p[pair] = highest
    return p


@settings(max_examples=40)
@given(tasks, st.sampled_from([0.0, 0.5]))
def test_the_step_down_test_is_its_definition(scores, margin):
    got = shown_better(scores, margin)
    for pair, p in stepped_down(scores, margin).items():
        assert got[pair] == pytest.approx(p)
    assert (np.diag(got) == 1).all()


@given(st.lists(arrays(float, st.tuples(st.just(2), st.integers(1, 4)), elements=points), min_size=1, max_size=2))
def test_of_two_methods_it_is_the_test_of_their_difference(scores):
    p = shown_better(scores, 0.0)
    d, weights = np.concatenate([task[0] - task[1] for task in scores]), task_weights([t.shape[1] for t in scores])
    if abs(d @ weights) > 1e-9:
        assert min(p[0, 1], p[1, 0]) == pytest.approx(sign_flip_p(d, weights))


@pytest.mark.parametrize("seeds", [7, 9])
def test_of_few_methods_all_flips_are_made_for_more_differences(seeds):
    scores = [np.random.default_rng(seeds).normal(size=(2, seeds)) for _ in range(2)]
    d = np.concatenate([task[0] - task[1] for task in scores])
    p = shown_better(scores, 0.0)
    assert min(p[0, 1], p[1, 0]) == pytest.approx(sign_flip_p(d, task_weights([seeds, seeds])), rel=1e-12)


@pytest.mark.parametrize("at_once", [1, 50, 1000])
def test_flips_in_parts_give_the_same(monkeypatch, at_once):
    scores = [np.random.default_rng(0).normal(size=(5, 4)) for _ in range(2)]
    whole = shown_better(scores, 0.1)
    monkeypatch.setattr("bench.analysis.stats.tiers.AT_ONCE", at_once)
    np.testing.assert_array_equal(shown_better(scores, 0.1), whole)


@settings(max_examples=40)
@given(tasks, st.sampled_from([0.0, 0.5]), st.sampled_from([0.05, 0.3]))
def test_what_a_tier_claims(scores, margin, alpha):
    got = tiers(scores, margin, alpha)
    means = np.mean([task.mean(1) for task in scores], axis=0)
    heads = [tier[0] for tier in got.members]
    assert sorted(index for tier in got.members for index in tier) == list(range(len(means)))
    assert heads[0] == np.argmax(means)
    for place, tier in enumerate(got.members):
        assert list(means[list(tier)]) == sorted(means[list(tier)], reverse=True)
        for index in tier:
            assert all(got.p[above, index] <= alpha and means[above] - means[index] > margin for above in heads[:place])
            assert got.p[tier[0], index] > alpha


def test_three_clear_tiers_and_a_tie_within_the_margin():
    rng = np.random.default_rng(0)
    truth = np.array([70.0, 80.0, 79.8, 60.0])
    table = truth + rng.normal(scale=0.3, size=(10, 4)) + rng.normal(scale=5, size=(10, 1))  # a seed moves all alike
    assert [set(tier) for tier in tiers([table.T], 0.5).members] == [{1, 2}, {0}, {3}]


def test_a_margin_that_every_difference_is_within_leaves_one_tier():
    table = np.arange(4.0) * 0.1 + np.zeros((10, 1))
    assert tiers([table.T], 0.5).members == ((3, 2, 1, 0),)
    assert len(tiers([table.T], 0.05).members) == 4


def test_ten_seeds_can_do_for_twenty_five_methods():
    table = np.random.default_rng(0).normal(scale=0.5, size=(10, 25))
    table[:, 7] -= 20
    assert tiers([table.T], 0.5).members[-1] == (7,)


def test_a_noisy_method_is_not_put_below_for_its_mean_alone():
    """It stands in the tier of the head that it cannot be told from, though a steady method above it does not."""
    steady, noisy = np.full(10, 75.0), 72 + 20 * np.array([-1.0, 1, -1, 1, -1, 1, -1, 1, -1, 1])
    table = np.stack([np.full(10, 80.0), steady + np.linspace(-1, 1, 10), noisy], 1)
    assert tiers([table.T], 0.5).members == ((0, 2), (1,))


@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_too_few_seeds_leave_one_tier_and_say_how_many_would_do(seeds):
    got = tiers([(np.arange(3.0) * 10 + np.zeros((seeds, 1))).T], 0.5)
    assert (len(got.members), got.seeds, got.needed) == (1, (seeds,), 6)


def test_tasks_of_other_numbers_of_seeds_do_with_no_fewer():
    """A seed of the task that has one weighs so much that hardly a flip of signs is as large."""
    found = tiers([np.array([[0.9], [0.1]]), np.array([[0.9] * 4, [0.8] * 4])], 0.0)
    assert found.members == ((0, 1),) and found.needed == 6


def test_three_seeds_on_four_tasks_are_enough_for_tiers():
    rng = np.random.default_rng(0)
    scores = [np.array([[60.0], [80.0], [70.0]]) + rng.normal(scale=2, size=(3, 3)) for _ in range(4)]
    assert tiers(scores, 0.5).members == ((1,), (2,), (0,))
    assert len(tiers(scores[:1], 0.5).members) == 1


def test_one_method_and_equal_methods():
    assert tiers([np.ones((1, 4))], 0.5).members == ((0,),)
    assert tiers([np.ones((3, 10))], 0.0).members == ((0, 1, 2),)


def test_more_seeds_than_are_enumerated_give_the_same_answer_each_time():
    table = np.random.default_rng(0).normal(size=(16, 5)) + np.arange(5)
    first, again = tiers([table.T], 0.0), tiers([table.T], 0.0)
    assert first.members == again.members and (first.p == again.p).all()
    assert first.p.min() > 0


@pytest.mark.parametrize("scores", [[np.array([[np.nan, 1.0]])], [np.ones(3)], [], [np.ones((2, 3)), np.ones((3, 3))]])
def test_gaps_and_tasks_of_other_methods_are_refused(scores):
    with pytest.raises(ValueError, match=r"expected \(methods, seeds\) for each task|a score is missing"):
        tiers(scores, 0.5)


def test_a_negative_margin_is_refused():
    with pytest.raises(ValueError, match="margin of at least 0"):
        tiers([np.ones((2, 2))], -1.0)
