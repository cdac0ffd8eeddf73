"""What quality is called, and which models are above chance."""

from __future__ import annotations

from itertools import product
from math import comb, sqrt

import pytest

from bench.analysis.quality import is_above_chance, quality_name


@pytest.fixture
def above(make_record):
    """Whether a model of this quality is above this chance, with sub-tasks of these sizes."""

    def ask(base: float, chance: float, *sizes: int) -> bool:
        parts = {str(place): size for place, size in enumerate(sizes)}
        return is_above_chance(make_record(quality=[[base, 0, 0]], chance=chance, result={"parts": parts}).result)

    return ask


def test_a_record_of_texts_alone_has_no_accuracy(make_record):
    assert quality_name(make_record()) == "accuracy"
    assert quality_name(make_record(result={"parts": {}})) == "probability of a byte"


@pytest.mark.parametrize(
    ("base", "chance", "sizes", "expected"),
    [
        (0.34, 1 / 3, [1000], False),
        (0.36, 1 / 3, [1000], False),  # an error is 0.0149
        (0.37, 1 / 3, [1000], True),
        (0.36, 1 / 3, [4000], True),
        (0.30, 1 / 3, [4000], False),
        (0.58, 0.5, [100, 100], True),  # of the mean of two 0.035, of each 0.05
        (0.58, 0.5, [100], False),
        (1.0, 1.0, [10], False),  # one answer only
        (0.01, 1 / 256, [], True),  # the probability of a byte
        (1 / 256, 1 / 256, [], False),
    ],
)
def test_two_standard_errors_above_chance(above, base, chance, sizes, expected):
    assert above(base, chance, *sizes) == expected


def test_the_error_is_that_of_guessing_on_the_parts(above):
    """Of 3 and 5 guesses at 0.3: all outcomes, counted."""
    chance, sizes = 0.3, (3, 5)
    mean = square = 0.0
    for right in product(*(range(size + 1) for size in sizes)):
        share = sum(k / size for k, size in zip(right, sizes, strict=True)) / 2
        weight = 1.0
        for k, size in zip(right, sizes, strict=True):
            weight *= comb(size, k) * chance**k * (1 - chance) ** (size - k)
        mean, square = mean + weight * share, square + weight * share**2
    error = sqrt(square - mean**2)
    assert not above(chance + 1.99 * error, chance, *sizes)
    assert above(chance + 2.01 * error, chance, *sizes)
