"""Paired differences, and Holm's correction against statsmodels."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from bench.analysis.stats.pairs import difference, holm
from bench.analysis.stats.signflip import sign_flip_interval, sign_flip_p

tenths = st.integers(0, 10).map(lambda value: value / 10)


@settings(deadline=None)
@given(st.lists(tenths, max_size=12))
def test_holm_is_that_of_statsmodels(p):
    with patch("gc.collect"):  # which statsmodels calls each time
        want = multipletests(p, method="holm")[1] if p else []
    assert holm(p) == pytest.approx(want)


@settings(deadline=None)
@given(st.lists(st.tuples(tenths, tenths), min_size=1, max_size=9), st.sampled_from([1, 3]))
def test_a_difference_of_seeds(pairs, tests):
    a, b = np.array(pairs).T
    got = difference(a, b, tests=tests)
    assert got.mean == pytest.approx(a.mean() - b.mean())
    assert got.beats == np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x, y in pairs])
    assert got.interval == sign_flip_interval(a - b)
    assert got.needed == {1: 6, 3: 7}[tests] and got.seeds == len(pairs)
    assert got.p == (sign_flip_p(a - b) if len(pairs) >= got.needed else None)


def test_one_seed_shows_a_difference_and_nothing_more():
    got = difference(np.array([0.8]), np.array([0.7]))
    assert (got.p, got.interval, got.seeds, got.needed) == (None, None, 1, 6)


def test_a_missing_seed_is_refused():
    with pytest.raises(ValueError, match="without gaps"):
        difference(np.array([0.8, np.nan]), np.array([0.7, 0.7]))
    with pytest.raises(ValueError, match="shapes"):
        difference(np.array([0.8, 0.7]), np.array([0.7, 0.7, 0.7]))


def test_values_that_differ_by_rounding_are_ties():
    """A mean over draws may differ in its last bit from each of the equal draws."""
    draws = np.full(3, 0.3548)
    assert difference(np.array([np.mean(draws), 0.5]), np.array([0.3548 + 1e-16, 0.5])).beats == 0.5
