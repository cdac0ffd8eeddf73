"""Tasks whose unpruned model is no better than chance."""

from __future__ import annotations

from itertools import product
from math import comb, sqrt

import pytest

from bench.analysis.above_chance import above_chance
from bench.analysis.cell_metrics import frame
from bench.report.leaderboard import markdown


def result(base: float, chance: float, **parts: int) -> dict:
    return {"quality": [[base, 0.0]], "chance": chance, "parts": parts}


@pytest.mark.parametrize(
    ("base", "chance", "parts", "above"),
    [
        (0.34, 1 / 3, {"a": 1000}, False),
        (0.36, 1 / 3, {"a": 1000}, False),  # an error is 0.0149
        (0.37, 1 / 3, {"a": 1000}, True),
        (0.36, 1 / 3, {"a": 4000}, True),
        (0.30, 1 / 3, {"a": 4000}, False),
        (0.58, 0.5, {"a": 100, "b": 100}, True),  # of the mean of two 0.035, of each 0.05
        (0.58, 0.5, {"a": 100}, False),
        (1.0, 1.0, {"a": 10}, False),  # one answer only
        (0.01, 1 / 256, {}, True),  # the probability of a byte
        (1 / 256, 1 / 256, {}, False),
    ],
)
def test_two_standard_errors_above_chance(base, chance, parts, above):
    assert above_chance(result(base, chance, **parts)) == above


def test_the_error_is_that_of_guessing_on_the_parts():
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
    for over, above in ((1.99, False), (2.01, True)):
        assert above_chance(result(chance + over * error, chance, a=3, b=5)) == above


def test_the_leaderboard_leaves_such_a_task_out_of_its_means_and_names_it(make_record):
    records = [
        make_record(label=label, data=data, quality=[[base, base, base / 2]], chance=1 / 3)
        for label in ("michel", "none")
        for data, base in (("first", 0.9), ("a*b", 0.34))
    ]
    text = markdown(records, frame(records))
    overall, of_low = text.split("\n## ")[1:3]
    assert overall.startswith("Overall: mean over 1 task\n") and "1.27" not in text
    assert (
        "Left out of the mean, as the unpruned model is not better than chance by 2 standard errors: classification, "
        "a\\*b, model (34.0 %, chance 33.3 %)." in overall
    )
    assert "| michel " in of_low and "area" not in of_low.splitlines()[4]


def test_where_no_task_is_above_chance_the_other_figures_are_shown(make_record):
    records = [make_record(data=data, quality=[[0.5, 0.5, 0.5]]) for data in ("first", "second")]
    overall = markdown(records, frame(records)).split("\n## ")[1]
    assert overall.startswith("Overall: mean over 2 tasks") and "| m " in overall
    assert "No area is shown, as the unpruned model is not better than chance by 2 standard errors: " in overall
