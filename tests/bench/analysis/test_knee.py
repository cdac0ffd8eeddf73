"""The inflection point, against its definition in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.analysis.knee import inflection, knee


def by_definition(right: list[int]) -> int | None:
    """The point farthest from the line through both ends, in the unit square: squared distances, one by one."""
    units, low, high = len(right) - 1, min(right), max(right)
    if low == high:
        return None
    points = [(Fraction(place, units), Fraction(value - low, high - low)) for place, value in enumerate(right)]
    (x0, y0), (x1, y1) = points[0], points[-1]
    length = (x1 - x0) ** 2 + (y1 - y0) ** 2
    squares = [((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)) ** 2 / length for x, y in points]
    return squares.index(max(squares)) if max(squares) else None


@given(st.lists(st.integers(0, 20), min_size=2, max_size=30))
def test_it_is_the_point_farthest_from_the_chord(right):
    shares = np.linspace(0, 1, len(right))
    assert knee(shares, np.array(right) / 20) == by_definition(right)


def test_a_curve_that_stays_high_and_falls_turns_where_it_begins_to_fall():
    shares = np.arange(11) / 10
    assert knee(shares, np.array([0.9] * 8 + [0.7, 0.5, 0.3])) == 7
    assert knee(shares, np.array([0.9] + [0.3] * 10)) == 1  # and one that falls at once, where it has fallen
    assert knee(shares, 0.9 - 0.6 * shares) is None


def test_cells_have_one_only_where_every_single_removal_was_measured(make_record):
    levels = list(range(9))
    draws = [[0.9] * 6 + [0.5, 0.3, 0.3], [0.9] * 5 + [0.8, 0.5, 0.3, 0.3]]
    record = make_record(removed=levels, quality=draws)
    found = inflection(record)
    assert found and found.removed == 5 and found.quality == pytest.approx(0.85)
    assert inflection(make_record(removed=(0, 4, 8))) is None
    assert inflection(make_record(removed=levels, quality=[[0.9] * 9])) is None
