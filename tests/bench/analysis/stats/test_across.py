"""Statistics across tasks against scipy and loops."""

from __future__ import annotations

import time
from itertools import product
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import mannwhitneyu, norm, t, trim_mean

from bench.analysis.stats import across
from bench.analysis.stats.across import (
    improvement_over,
    interquartile_mean,
    iqm,
    mean_of_tasks,
    normalise,
    performance_profile,
    seed_bootstrap,
    task_means,
)

tenths = st.integers(-2, 10).map(lambda value: value / 10)


@st.composite
def scores(draw, least_seeds: int = 1) -> list[np.ndarray]:
    """One array (methods, seeds) a task, with ties, and as many seeds as each task has."""
    methods = draw(st.integers(1, 4))
    seeds = draw(st.lists(st.integers(least_seeds, 5), min_size=1, max_size=6))
    return [draw(arrays(float, (methods, n), elements=tenths)) for n in seeds]


def over_the_first(some, counts=None):
    return improvement_over(some, counts, 0)


def test_normalised_quality():
    got = normalise(
        np.array([[0.25, 0.6, 0.95], [0.1, 0.5, 0.5]]), np.array([[0.25], [0.5]]), np.array([[0.95], [0.5]])
    )
    assert got[0] == pytest.approx([0, 0.5, 1])
    assert np.isnan(got[1]).all()  # no better than chance before anything was removed


@given(scores())
def test_iqm_is_scipys_of_the_means_over_seeds(given_scores):
    for method, got in enumerate(iqm(given_scores)):
        means = [task[method].mean() for task in given_scores]
        assert got == pytest.approx(trim_mean(means, 0.25))


@given(arrays(float, st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 9)), elements=tenths))
def test_iqm_takes_all_draws_at_once(means):
    assert interquartile_mean(means) == pytest.approx(trim_mean(means, 0.25, axis=-1))


@given(scores())
def test_profiles_count_runs_above(given_scores):
    thresholds = np.array([-0.5, 0.0, 0.35, 1.0])
    got = performance_profile(given_scores, thresholds)
    for method in range(len(given_scores[0])):
        for place, threshold in enumerate(thresholds):
            by_task = [np.mean([run > threshold for run in task[method]]) for task in given_scores]
            assert got[method, place] == pytest.approx(np.mean(by_task))


@settings(max_examples=30)
@given(scores())
def test_improvement_is_mann_whitneys_statistic(given_scores):
    got = np.stack([improvement_over(given_scores, None, j) for j in range(len(given_scores[0]))], axis=-1)
    for i, j in np.ndindex(got.shape):
        by_task = [mannwhitneyu(task[i], task[j]).statistic / task[i].size ** 2 for task in given_scores]
        assert got[i, j] == pytest.approx(np.mean(by_task))
    assert got + got.T == pytest.approx(np.ones_like(got))


@settings(max_examples=20)
@given(scores(least_seeds=2))
def test_counted_seeds_are_as_many_runs(given_scores):
    """The statistics of all draws at once are those of each draw, with a run for each time that a seed was drawn."""
    rng = np.random.default_rng(0)
    seeds = [rng.integers(task.shape[1], size=(3, 4)) for task in given_scores]
    counts = [
        np.array([[np.sum(row == seed) for seed in range(task.shape[1])] for row in drawn], dtype=float)
        for task, drawn in zip(given_scores, seeds, strict=True)
    ]
    for statistic in (task_means, mean_of_tasks, iqm, over_the_first):
        together = statistic(given_scores, counts)
        for draw in range(3):
            runs = [task[:, drawn[draw]] for task, drawn in zip(given_scores, seeds, strict=True)]
            assert together[draw] == pytest.approx(statistic(runs))


def test_the_seed_bootstrap_has_the_error_of_a_stratified_mean():
    rng = np.random.default_rng(0)
    some = [rng.normal(size=(2, n)) for n in (6, 10, 20)]
    got = seed_bootstrap(mean_of_tasks, some, draws=20_000)
    error = np.sqrt(sum(task.var(axis=1, ddof=1) / task.shape[1] for task in some)) / 3
    assert got.value == pytest.approx(mean_of_tasks(some))
    want = got.value + t.ppf(0.975, 5) * error  # as the task with fewest seeds has it
    assert got.high == pytest.approx(want, abs=0.03)


def test_methods_are_drawn_with_the_same_seeds():
    """What a seed adds to both is no error of their difference."""
    rng = np.random.default_rng(0)
    seeds = rng.normal(size=8)
    got = seed_bootstrap(lambda *drawn: mean_of_tasks(*drawn) @ [1, -1], [np.stack([seeds + 1, seeds])])
    assert (float(got.low), float(got.high)) == pytest.approx((1, 1))


def test_the_tail_is_that_of_student():
    """With n - 1 of n drawn, ends lie where a normal of s²/n has them at t: checked with n so large that it is one."""
    values = np.arange(400.0)[None]
    got = seed_bootstrap(mean_of_tasks, [values], alpha=0.2, draws=40_000)
    tail = norm.cdf(t.ppf(0.1, 399))
    assert tail < 0.1
    assert got.high[0] == pytest.approx(values.mean() - norm.ppf(tail) * values.std(ddof=1) / 20, abs=0.3)


@pytest.mark.parametrize("seeds", [5, 6])
def test_of_few_seeds_of_one_task_every_draw_is_taken(seeds):
    values = np.random.default_rng(seeds).normal(size=(2, seeds))
    got = seed_bootstrap(mean_of_tasks, [values])
    means = [
        [mean(one[place] for place in places) for places in product(range(seeds), repeat=seeds - 1)] for one in values
    ]
    tail = norm.cdf(t.ppf(0.025, seeds - 1))
    assert got.low == pytest.approx(np.quantile(means, tail, axis=1))
    assert got.high == pytest.approx(np.quantile(means, 1 - tail, axis=1))


def test_ends_do_not_depend_on_chance():
    """Of six seeds on each of four tasks, two runs of draws agree within a twentieth of the interval."""
    some = list(np.random.default_rng(0).random((4, 20, 6)))
    one, other = seed_bootstrap(mean_of_tasks, some), seed_bootstrap(mean_of_tasks, some, seed=1)
    wide = one.high - one.low
    assert max(np.abs(one.low - other.low) / wide) < 0.05 and max(np.abs(one.high - other.high) / wide) < 0.05


@pytest.mark.parametrize("few", [1, 4])
def test_few_seeds_have_a_value_and_no_interval(few):
    some = [np.array([[0.5], [0.7]]).repeat(few, 1), np.array([[0.1], [0.3]]).repeat(9, 1)]
    got = seed_bootstrap(iqm, some)
    assert got.value == pytest.approx([0.3, 0.5]) and got.low is None and got.high is None


def test_all_scores_equal():
    got = seed_bootstrap(iqm, [np.full((2, 5), 0.4)] * 2)
    assert got.low == pytest.approx(0.4) and got.high == pytest.approx(0.4)
    assert over_the_first([np.full((2, 3), 0.4)]) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    "some",
    [[], [np.zeros((2, 3)), np.zeros((3, 3))], [np.zeros(3)], [np.array([[0.1, np.nan]])], [np.zeros((2, 0))]],
    ids=["no task", "other methods", "no seeds' axis", "missing cell", "no seed"],
)
def test_gaps_are_refused(some):
    with pytest.raises(ValueError, match=r"missing|expected"):
        seed_bootstrap(mean_of_tasks, some)


def test_draws_are_the_same_however_many_are_in_memory(monkeypatch):
    some = list(np.random.default_rng(0).random((3, 4, 10)))
    for statistic in (iqm, over_the_first):
        together = seed_bootstrap(statistic, some)
        monkeypatch.setattr(across, "TOGETHER", 120 * 7)  # draws by sevens
        apart = seed_bootstrap(statistic, some)
        for one, other in ((together.low, apart.low), (together.high, apart.high)):
            assert one == pytest.approx(other, rel=1e-12)
        monkeypatch.undo()


def test_the_random_state_is_fixed():
    some = [*np.random.default_rng(0).random((2, 3, 5))]
    first, again, other = seed_bootstrap(iqm, some), seed_bootstrap(iqm, some), seed_bootstrap(iqm, some, seed=1)
    assert (first.low == again.low).all() and (first.low != other.low).any()


def test_a_full_leaderboard_takes_seconds():
    """25 methods, three tasks, ten seeds, and all draws of the statistic that takes longest: a second or so."""
    some = list(np.random.default_rng(0).random((3, 25, 10)))
    begin = time.process_time()
    got = seed_bootstrap(over_the_first, some)
    assert got.low is not None and got.low.shape == (25,)
    assert time.process_time() - begin < 10
