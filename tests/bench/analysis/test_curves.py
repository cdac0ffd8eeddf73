"""Areas against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.analysis.curves import area, area_to, parameters_removed, removes

HALVES = np.array([0, 0.25, 0.5])


def test_the_area_is_a_mean_over_shares():
    assert area(np.array([0, 0.5, 1]), np.array([0.9, 0.7, 0.5])) == pytest.approx(0.7)
    assert area(np.array([0, 0.5]), np.array([0.9, 0.7])) == pytest.approx(0.8)  # of the shares measured
    assert area(np.array([0, 0.25, 1]), np.array([1.0, 1.0, 0.0])) == pytest.approx(0.25 + 0.75 / 2)


def test_the_area_of_many_curves_is_that_of_each():
    curves = np.array([[0.9, 0.7, 0.3], [0.9, 0.9, 0.9]])
    assert area(HALVES, curves) == pytest.approx([area(HALVES, curve) for curve in curves])


@pytest.mark.parametrize(
    ("largest", "expected"),
    [(0.25, 0.8), (0.5, (0.8 + 0.5) / 2), (0.375, (0.8 * 2 + 0.6) / 3)],
)
def test_the_area_to_a_share_is_linear_between_levels(largest, expected):
    assert area_to(largest, HALVES, np.array([0.9, 0.7, 0.3])) == pytest.approx(expected)
    assert area_to(largest, HALVES, np.full(3, 0.4)) == pytest.approx(0.4)


def test_the_area_leaves_out_shares_that_are_not_removed():
    quality = np.array([0.9, 0.7, 0.3])
    assert area_to(1.0, HALVES, quality) == area_to(0.5, HALVES, quality) == pytest.approx(area(HALVES, quality))


def test_what_is_removed_and_how_many_parameters(make_record):
    assert parameters_removed(make_record()).tolist() == [0, 0.25, 0.5]  # of 4, 3 and 2 megabytes
    everything = [list(range(8))] * 3
    assert removes(make_record()) == "heads"
    assert removes(make_record(neurons=True)) == "heads and neurons"
    assert removes(make_record(neurons=True, kept=everything, result={"orders": None})) == "neurons"


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=40, unique=True),
    st.floats(0.01, 1),
    st.integers(0, 2**32),
)
def test_the_area_to_a_share_is_that_of_numpy(removed, largest, seed):
    shares = np.array([0, *sorted(removed)]) / max(removed)
    quality = np.random.default_rng(seed).random(len(shares))
    grid = np.append(shares[shares < largest], largest)
    assert area_to(largest, shares, quality) == pytest.approx(
        float(area(grid, np.interp(grid, shares, quality))), rel=1e-12
    )
