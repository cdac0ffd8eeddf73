"""McNemar against statsmodels, and the bootstrap over documents against scipy and the size of its error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, bootstrap
from statsmodels.stats.contingency_tables import mcnemar as reference

from bench.analysis.stats.documents import document_bootstrap, mcnemar

outcomes = st.integers(1, 40).flatmap(lambda n: arrays(bool, (2, n)))


@given(outcomes)
def test_mcnemar_is_that_of_statsmodels(both):
    a, b = both
    got = mcnemar(a, b)
    table = [[np.sum(a & b), np.sum(a & ~b)], [np.sum(~a & b), np.sum(~a & ~b)]]
    assert (got.only_a, got.only_b) == (table[0][1], table[1][0])
    assert got.p == pytest.approx(min(1.0, reference(table, exact=True).pvalue))


def test_mcnemar_of_models_that_agree_on_all():
    assert mcnemar(np.ones(5, bool), np.ones(5, bool)).p == 1


@pytest.mark.parametrize("b", [np.ones(4, bool), np.ones(5)])
def test_mcnemar_is_for_the_same_documents(b):
    with pytest.raises(ValueError, match="same documents"):
        mcnemar(np.ones(5, bool), b)


def test_the_bootstrap_is_that_of_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 1, 200)) < [[[0.8]], [[0.7]]]
    got = document_bootstrap(a, b, draws=20_000)
    want = bootstrap((a[0] * 1.0 - b[0],), np.mean, n_resamples=20_000, method="percentile", rng=1).confidence_interval
    assert got.mean == pytest.approx(a.mean() - b.mean())
    assert (got.low, got.high) == pytest.approx((want.low, want.high), abs=0.0051)  # means are multiples of 1/200


def test_the_ends_for_many_methods_are_those_of_the_binomial_distribution():
    a, alpha = np.arange(60)[None] < 30, 0.05 / 60
    ends = binom.ppf([alpha / 2, 1 - alpha / 2], 60, 0.5) / 60

    def off(draws: int | None) -> float:
        found = [document_bootstrap(a, np.zeros_like(a), alpha=alpha, draws=draws, seed=seed) for seed in range(10)]
        return max(np.abs(np.subtract(ends, (each.low, each.high))).max() for each in found)

    assert off(None) < 1.01 / 60 < off(1000)  # the ends of 1000 draws would be the extreme ones


def test_a_document_is_drawn_with_its_outcomes_in_all_seeds():
    """Ten copies of a model tell no more of the documents than one."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 1, 300)) < 0.7
    one, ten = document_bootstrap(a, b), document_bootstrap(a.repeat(10, 0), b.repeat(10, 0))
    assert (ten.mean, ten.low, ten.high) == pytest.approx((one.mean, one.low, one.high))


def test_groups_count_alike_whatever_their_size_and_are_drawn_apart():
    sizes = [900, 100]
    a, b = np.zeros((1, 1000), bool), np.zeros((1, 1000), bool)
    a[0, 900:] = True  # all of the small group, nothing of the large one
    got = document_bootstrap(a, b, sizes)
    assert (got.mean, got.low, got.high) == (0.5, 0.5, 0.5)  # no draw changes a group's share
    assert document_bootstrap(a, b).mean == pytest.approx(0.1)


def test_the_variance_is_that_of_a_mean_of_group_means():
    rng = np.random.default_rng(0)
    sizes = (400, 50)
    a, b = rng.random((2, 3, 450)) < 0.6
    got = document_bootstrap(a, b, sizes, alpha=0.32, draws=5000)
    d = (a * 1.0 - b).mean(0)
    error = np.sqrt(d[:400].var() / 400 + d[400:].var() / 50) / 2
    assert (got.high - got.low) / 2 == pytest.approx(error, rel=0.05)


def test_means_over_draws_will_do():
    a = np.array([[0.5, 1.0, 0.2, 0.0]])
    assert document_bootstrap(a, a).mean == document_bootstrap(a, a).high == 0


@pytest.mark.parametrize("parts", [(3,), (5, -1), (4, 0)])
def test_groups_that_do_not_fit_are_refused(parts):
    with pytest.raises(ValueError, match="documents"):
        document_bootstrap(np.zeros((1, 4)), np.zeros((1, 4)), parts)


def test_the_random_state_is_fixed():
    a, b = np.random.default_rng(0).random((2, 2, 50)) < 0.5
    assert document_bootstrap(a, b) == document_bootstrap(a, b) != document_bootstrap(a, b, seed=1)
