"""The search for weights of a penalty: bounded, within its grid, and as good as trying many where it can be."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from methods.training.search import search

GRID = [0.01, 1.0]


def closest(found, keep):
    return min(abs(count - keep) for count in found.values())


@given(
    middle=st.floats(0.02, 0.5),
    steepness=st.floats(0.5, 2),
    budgets=st.lists(st.integers(1, 15), min_size=1, max_size=3),
)
def test_every_budget_between_the_ends_is_met_where_the_count_falls_smoothly(middle, steepness, budgets):
    def opened(weight):
        return round(16 / (1 + (weight / middle) ** steepness))

    found = search(opened, GRID, budgets, tolerance=0.8, most=60)
    assert all(closest(found, keep) == 0 for keep in budgets if opened(1.0) <= keep <= opened(0.01))


@given(seed=st.integers(0, 1000), budgets=st.lists(st.integers(0, 16)), most=st.integers(1, 9))
def test_it_ends_within_the_bound_and_stays_in_the_grid_whatever_the_counts(seed, budgets, most):
    tried = []

    def opened(weight):
        tried.append(weight)
        return hash((seed, weight)) % 17

    found = search(opened, GRID, budgets, tolerance=0.5, most=most)
    assert list(found) == tried and len(set(tried)) == len(tried) <= most
    assert all(GRID[0] <= weight <= GRID[-1] for weight in tried)


def test_a_weight_that_is_given_twice_is_tried_once():
    tried = []
    search(lambda weight: tried.append(weight) or 5, [0.003, 0.003, 0.003], [5], tolerance=1, most=9)
    assert tried == [0.003]


def test_nothing_more_is_tried_once_the_budgets_are_met_within_the_tolerance():
    counts = {0.01: 12, 1.0: 3}
    assert search(counts.__getitem__, GRID, [11, 4], tolerance=1, most=9) == counts


@pytest.mark.parametrize("budget", [2, 14])
def test_a_budget_beyond_the_grid_is_left_alone(budget):
    counts = {0.01: 12, 1.0: 4}
    assert search(counts.__getitem__, GRID, [budget], tolerance=0.5, most=9) == counts


def test_the_next_weight_is_interpolated_in_the_logarithm():
    tried = []

    def opened(weight):
        tried.append(weight)
        return round(-8 * math.log10(weight))

    search(opened, GRID, [4], tolerance=0.5, most=9)
    assert tried == pytest.approx([0.01, 1.0, 10**-0.5])


def test_the_budget_that_is_off_by_most_comes_first():
    tried = []

    def opened(weight):
        tried.append(weight)
        return round(-6 * math.log10(weight))

    search(opened, GRID, [11, 6], tolerance=0.5, most=3)
    assert tried[-1] == pytest.approx(0.1)  # 11 is off by 1, 6 by 6
