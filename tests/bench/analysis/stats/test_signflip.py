"""The sign-flip test and its interval against enumeration, scipy, and each other."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import permutation_test, ttest_1samp

from bench.analysis.stats import signflip
from bench.analysis.stats.signflip import (
    MANY,
    SAMPLED,
    SAMPLED_OF_MANY,
    samples_needed,
    sign_flip_interval,
    sign_flip_p,
)

few = st.lists(st.integers(-6, 6), min_size=1, max_size=8).map(lambda values: np.array(values) / 10)  # ties, zeros
weighted = st.lists(st.tuples(st.integers(-6, 6), st.integers(1, 4)), min_size=1, max_size=8).map(
    lambda pairs: (np.array([value for value, _ in pairs]) / 10, np.array([weight for _, weight in pairs]) / 4)
)
any_alpha = st.sampled_from([0.01, 0.05, 0.1, 0.32, 0.5])


def enumerated_p(d: np.ndarray, weights: np.ndarray | float = 1.0) -> float:
    d = d * weights
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, d, strict=True)))
        for signs in product((1, -1), repeat=len(d))
    ]
    return float(np.mean(np.array(sums) >= abs(d.sum()) - 1e-9))


@given(weighted)
def test_p_is_the_share_of_all_flips_that_are_as_far_out(pair):
    d, weights = pair
    assert sign_flip_p(d) == pytest.approx(enumerated_p(d))
    assert sign_flip_p(d, weights) == pytest.approx(enumerated_p(d, weights))
    assert sign_flip_p(d, np.full(len(d), 3.0)) == sign_flip_p(d)


@given(weighted.filter(lambda pair: len(pair[0]) > 1))
def test_p_is_that_of_scipy(pair):
    d, weights = pair
    for w in (np.ones_like(d), weights):
        got = permutation_test(
            (d, np.zeros_like(d)), lambda a, b, w=w: round(float(np.dot(w, a - b)), 9), permutation_type="samples"
        )
        assert sign_flip_p(d, w) == pytest.approx(got.pvalue)


@given(weighted, any_alpha, st.integers(-70, 70))
def test_the_interval_holds_what_the_test_does_not_reject(pair, alpha, place):
    d, weights = pair
    theta = place / 100 + 0.0003  # no mean of a subset: at an end of the interval the two count a tie as both in
    interval = sign_flip_interval(d, alpha, weights)
    inside = interval is None or interval[0] <= theta <= interval[1]
    assert inside == (enumerated_p(d - theta, weights) > alpha)


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_so_does_that_of_random_flips(alpha, seed):
    rng = np.random.default_rng(seed)
    d, weights = rng.normal(0.2, 1, size=25), rng.integers(1, 4, size=25) / 2
    low, high = sign_flip_interval(d, alpha, weights, seed)
    for theta, inside in ((low - 1e-6, False), (low + 1e-6, True), (high - 1e-6, True), (high + 1e-6, False)):
        assert (sign_flip_p(d - theta, weights, seed) > alpha) == inside


@given(few, any_alpha)
def test_there_is_an_interval_from_the_number_of_samples_on_that_is_needed(d, alpha):
    assert (sign_flip_interval(d, alpha) is None) == (len(d) < samples_needed(alpha))


@pytest.mark.parametrize("alpha", [1e-5, 4e-5, 6e-5, 1e-3])
def test_random_flips_give_an_interval_where_they_give_so_small_a_p_value(alpha):
    d = np.random.default_rng(0).normal(2, 0.5, size=24)
    assert (d > 0).all() and (sign_flip_interval(d, alpha) is None) == (sign_flip_p(d) > alpha)


@given(few)
def test_changing_sides_changes_signs(d):
    assert sign_flip_p(-d) == sign_flip_p(d)
    if interval := sign_flip_interval(d, 0.3):
        assert sign_flip_interval(-d, 0.3) == pytest.approx((-interval[1], -interval[0]))


def test_samples_needed_for_a_level_near_0():
    assert samples_needed(1e-300, 2**40) == 1038  # 1 + 40 + log2(1e300)


@pytest.mark.parametrize(
    ("alpha", "tests", "needed"),
    [(0.05, 1, 6), (0.05, 3, 7), (0.05, 300, 14), (0.5, 1, 2), (0.25, 1, 3)],
)
def test_samples_needed(alpha, tests, needed):
    assert samples_needed(alpha, tests) == needed
    assert tests * 2 / 2**needed <= alpha < tests * 2 / 2 ** (needed - 1)
    assert sign_flip_p(np.ones(needed)) * tests <= alpha


@pytest.mark.parametrize("d", [np.zeros(1), np.zeros(7), np.array([0.1, -0.1])])
def test_no_difference_at_all(d):
    assert sign_flip_p(d) == 1


def test_all_differences_equal():
    assert sign_flip_p(np.full(6, 0.1)) == 2 / 2**6
    assert sign_flip_interval(np.full(6, 0.1)) == pytest.approx((0.1, 0.1))


@pytest.mark.parametrize("weights", [np.ones(3), np.array([1.0, 0.0]), np.array([1.0, np.nan]), np.array([1.0, -1.0])])
def test_weights_that_do_not_fit_are_refused(weights):
    with pytest.raises(ValueError, match="a positive weight for each of 2 differences"):
        sign_flip_p(np.ones(2), weights)


@pytest.mark.parametrize("d", [np.array([]), np.array([0.1, np.nan]), np.zeros((2, 2))])
def test_gaps_are_refused(d):
    with pytest.raises(ValueError, match="without gaps"):
        sign_flip_p(d)
    with pytest.raises(ValueError, match="without gaps"):
        sign_flip_interval(d)


def test_many_samples_are_sampled_alike_each_time_and_near_the_t_test():
    d = np.random.default_rng(0).normal(0.35, 1, size=40)
    p = sign_flip_p(d)
    theory = ttest_1samp(d, 0)
    assert p == sign_flip_p(d) and sign_flip_interval(d) == sign_flip_interval(d)
    assert p == pytest.approx(theory.pvalue, abs=0.006)
    assert sign_flip_interval(d) == pytest.approx(tuple(theory.confidence_interval()), abs=0.03)
    assert sign_flip_p(np.ones(40)) == pytest.approx(1 / (1 + SAMPLED))  # never 0


def test_hundreds_are_flipped_less_often_and_still_near_the_t_test():
    d = np.random.default_rng(3).normal(0.12, 1, size=400)
    theory = ttest_1samp(d, 0)
    assert sign_flip_p(d) == pytest.approx(theory.pvalue, abs=4 * (theory.pvalue / SAMPLED_OF_MANY) ** 0.5)
    assert sign_flip_interval(d) == pytest.approx(tuple(theory.confidence_interval()), abs=0.01)
    assert sign_flip_p(np.ones(MANY)) == pytest.approx(1 / (1 + SAMPLED))
    assert sign_flip_p(np.ones(MANY + 1)) == pytest.approx(1 / (1 + SAMPLED_OF_MANY))


def test_twenty_are_enumerated_and_twenty_one_sampled():
    d = np.random.default_rng(1).normal(0.3, 1, size=21)
    assert sign_flip_p(d[:20], seed=0) == sign_flip_p(d[:20], seed=1)
    assert sign_flip_p(d, seed=0) != sign_flip_p(d, seed=1)


@pytest.mark.parametrize("n", [16, 19, 20])
def test_random_flips_come_near_all_of_them(monkeypatch, n):
    draw = np.random.default_rng(n)
    d, weights = draw.normal(0.4, 1, size=n), draw.uniform(0.5, 2, size=n)
    exact = sign_flip_p(d, weights), sign_flip_interval(d, 0.05, weights)
    monkeypatch.setattr(signflip, "EXACT", 0)
    assert sign_flip_p(d, weights) == pytest.approx(exact[0], abs=4 * (exact[0] * (1 - exact[0]) / SAMPLED) ** 0.5)
    assert sign_flip_interval(d, 0.05, weights) == pytest.approx(exact[1], abs=0.02)


@given(weighted, any_alpha)
def test_the_interval_leaves_out_no_difference_exactly_where_the_test_rejects_it(pair, alpha):
    """Also where an end is 0, which sums of decimal fractions miss by rounding."""
    d, weights = pair
    if interval := sign_flip_interval(d, alpha, weights):
        assert (interval[0] > 0 or interval[1] < 0) == (sign_flip_p(d, weights) <= alpha)


def test_an_end_of_0_is_exactly_that():
    d = np.array([5, -11, -28, -22, -25, -6, 6, -23]) / 1000
    low, high = sign_flip_interval(d)
    assert low < 0 and str(high) == "0.0" and sign_flip_p(d) == 14 / 256
