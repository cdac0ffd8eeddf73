"""Agreement of removal orders against scipy and sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from bench.analysis.stats.orders import kendall_tau, overlap, rank_correlation, stability


@st.composite
def orders(draw, groups: int = 2) -> list[np.ndarray]:
    """Removal orders of the same units, (orders, units), one array a group."""
    units = draw(st.integers(2, 9))
    order = st.permutations(range(units))
    return [np.array(draw(st.lists(order, min_size=1, max_size=3))) for _ in range(groups)]


@given(orders())
def test_tau_is_scipys_of_the_positions(both):
    a, b = both
    got = kendall_tau(a, b)
    for i, j in np.ndindex(got.shape):
        assert got[i, j] == pytest.approx(kendalltau(np.argsort(a[i]), np.argsort(b[j])).statistic)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=8))
def test_the_correlation_of_scores_with_ties_is_scipys(pairs):
    x, y = np.array(pairs).T
    assert rank_correlation(x, y) == pytest.approx(kendalltau(x, y).statistic, nan_ok=True)


def test_tau_of_an_order_with_itself_and_its_reverse():
    order = np.random.default_rng(0).permutation(144)[None]
    assert kendall_tau(order, order).item() == 1 and kendall_tau(order, order[:, ::-1]).item() == -1


def test_one_unit_has_no_order():
    assert np.isnan(kendall_tau(np.array([[0]]), np.array([[0]]))).all()


@given(orders(), st.data())
def test_overlap_counts_units_in_common(both, data):
    a, b = both
    k = data.draw(st.integers(1, a.shape[1]))
    got = overlap(a, b, k)
    for i, j in np.ndindex(got.shape):
        assert got[i, j] == pytest.approx(len(set(a[i, :k]) & set(b[j, :k])) / k)


@pytest.mark.parametrize("k", [0, 4])
def test_overlap_is_of_some_units(k):
    with pytest.raises(ValueError, match="from 1 to 3"):
        overlap(np.array([[0, 1, 2]]), np.array([[0, 1, 2]]), k)


def test_orders_of_other_units_are_refused():
    with pytest.raises(ValueError, match="units"):
        kendall_tau(np.array([[0, 1]]), np.array([[0, 1, 2]]))


def test_stability_is_over_pairs_of_seeds_not_of_draws():
    forward, back = [0, 1, 2, 3], [3, 2, 1, 0]
    assert stability(np.array([[forward, back], [forward, back]])) == 0
    assert stability(np.array([[forward], [forward], [back]])) == pytest.approx((1 - 1 - 1) / 3)
    assert np.isnan(stability(np.array([[forward, back]])))
