"""Paired differences, and Holm's correction against statsmodels."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from bench.analysis.stats.pairs import adjusted, difference, holm
from bench.analysis.stats.signflip import samples_needed, sign_flip_interval, sign_flip_p

tenths = st.integers(0, 10).map(lambda value: value / 10)


@given(st.lists(tenths, max_size=12))
def test_holm_is_that_of_statsmodels(p):
    with patch("gc.collect"):  # which statsmodels calls each time
        want = multipletests(p, method="holm")[1] if p else []
    assert holm(p) == pytest.approx(want)


@given(st.lists(st.tuples(tenths, tenths), min_size=1, max_size=9), st.sampled_from([1, 3]))
def test_a_difference_of_seeds_on_one_task(pairs, tests):
    a, b = np.array(pairs).T
    got = difference([a], [b])
    assert got.mean == pytest.approx(a.mean() - b.mean())
    assert got.beats == pytest.approx(np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x, y in pairs]))
    assert got.interval == (pytest.approx(sign_flip_interval(a - b)) if len(pairs) >= 6 else None)
    assert got.seeds_needed(tests) == {1: 6, 3: 7}[tests] and got.seeds == (len(pairs),)
    assert got.p == (sign_flip_p(a - b) if len(pairs) >= 6 else None)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=5, max_size=8), min_size=1, max_size=4))
def test_tests_that_are_made_together_are_adjusted_by_holm_and_say_where_seeds_are_too_few(values):
    found = [difference([np.array(d)], [np.zeros(len(d))]) for d in values]
    every = [sign_flip_p(np.array(d, dtype=float)) if len(d) >= 6 else 1.0 for d in values]
    for d, one, own, p in zip(values, found, holm(every).tolist(), adjusted(found), strict=True):
        enough = 2 / 2 ** len(d) <= 0.05 / len(values)
        assert p == (own if enough or own <= 0.05 else None)
        assert one.seeds_needed(len(values)) == samples_needed(0.05, len(values))


def test_a_test_that_rejects_leaves_fewer_to_correct_the_next_one_for():
    """Six seeds cannot reach 5 % of two tests, but of the one that is left."""
    ten, six = (difference([np.ones(seeds)], [np.zeros(seeds)]) for seeds in (10, 6))
    assert six.seeds_needed(2) == 7 and adjusted([ten, six]) == pytest.approx([2 * 2 / 2**10, 2 / 2**6])
    assert adjusted([six, six]) == [None, None]


def test_what_rounding_makes_of_equal_means_is_no_difference():
    mean = np.full(10, 0.3).mean()
    assert mean != 0.3
    got = difference([np.full(10, mean)] * 2, [np.full(10, 0.3)] * 2)
    assert (got.mean, got.p, got.beats, got.interval) == (0, 1, 0.5, (0, 0))


@pytest.mark.parametrize(("number", "needed"), [(1, 6), (2, 3), (3, 2), (4, 2), (5, 2), (6, 1), (7, 1)])
def test_seeds_needed_of_each_task_make_up_at_least_the_differences_needed(number, needed):
    assert difference([np.ones(1)] * number, [np.zeros(1)] * number).seeds_needed() == needed


tasks = st.lists(st.lists(tenths, min_size=1, max_size=3), min_size=1, max_size=3)  # values of the seeds of each


@given(tasks)
def test_of_several_tasks_each_seed_is_flipped_by_itself(by_task):
    """The mean over tasks of the mean over seeds, under every choice of signs, one for each seed of each task."""
    d = [np.array(task) - 0.5 for task in by_task]
    got = difference(d, [np.zeros_like(task) for task in d])
    assert got.mean == pytest.approx(np.mean([task.mean() for task in d]))
    assert got.seeds == tuple(map(len, d)) and got.seeds_needed() == -(-6 // len(d))
    if sum(got.seeds) < 6:
        assert got.p is None and got.interval is None
        return
    means = []
    for signs in product((1, -1), repeat=sum(got.seeds)):
        flipped, rest = [], list(signs)
        for task in d:
            flipped.append(np.mean([rest.pop() * value for value in task]))
        means.append(abs(np.mean(flipped)))
    assert got.p == pytest.approx(np.mean(np.array(means) >= abs(got.mean) - 1e-9))


@given(tasks, st.randoms())
def test_no_seed_of_one_task_is_paired_with_one_of_another(by_task, random):
    d = [np.array(task) for task in by_task]
    shuffled = [np.array(random.sample(task, len(task))) for task in by_task]
    random.shuffle(shuffled)
    zeros = [np.zeros_like(task) for task in d]
    one, other = difference(d, zeros), difference(shuffled, [np.zeros_like(task) for task in shuffled])
    assert (one.mean, one.p) == pytest.approx((other.mean, other.p))
    assert one.interval == (other.interval and pytest.approx(other.interval))


def test_three_seeds_on_four_tasks_can_show_a_difference():
    a = [np.full(3, 0.6) + 0.01 * task for task in range(4)]
    got = difference(a, [np.full(3, 0.5)] * 4)
    assert got.p == 2 / 2**12 and got.interval is not None and got.interval[0] > 0
    assert difference([task.mean()[None] for task in a], [np.full(1, 0.5)] * 4).p is None  # four differences cannot


def test_one_seed_shows_a_difference_and_nothing_more():
    got = difference([np.array([0.8])], [np.array([0.7])])
    assert (got.p, got.interval, got.seeds, got.seeds_needed()) == (None, None, (1,), 6)


def test_a_missing_seed_is_refused():
    with pytest.raises(ValueError, match="without gaps"):
        difference([np.array([0.8, np.nan])], [np.array([0.7, 0.7])])
    with pytest.raises(ValueError, match="shapes"):
        difference([np.array([0.8, 0.7])], [np.array([0.7, 0.7, 0.7])])


def test_values_that_differ_by_rounding_are_ties():
    """A mean over draws may differ in its last bit from each of the equal draws."""
    draws = np.full(3, 0.3548)
    assert difference([np.array([np.mean(draws), 0.5])], [np.array([0.3548 + 1e-16, 0.5])]).beats == 0.5
