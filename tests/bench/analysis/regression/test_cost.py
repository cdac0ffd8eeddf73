"""A scorer that takes longer is found by its seconds, on a machine whose seconds vary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.analysis.regression.cells import Run, Twin
from bench.analysis.regression.cost import slowdown
from bench.analysis.regression.verdict import Limits
from bench.records.schema import TaskKey

SEEDS = range(12)
NOISE = 0.25  # of the logarithm of a cell's seconds over its control's, now and before: as measured on a busy machine


@pytest.fixture(scope="module")
def alarms(make_record) -> Callable[[float, int, int], float]:
    """How often a method that takes ``factor`` times as long is called slower, of so many methods in so many cells."""

    def run(scoring: float, evaluation: float) -> Run:
        seconds = {"choosing": float(scoring), "evaluation": float(evaluation)}
        return Run(make_record(measured={"processor_seconds": seconds}), Path())

    def cells(draw: int, factor: float, count: int) -> list[Twin]:
        rng = np.random.default_rng(draw)
        held_up = np.exp(rng.normal(0, 1, (count, 2)))  # the whole cell, its control too
        before, after = (0.1 * np.exp(rng.normal(0, NOISE / np.sqrt(2), count)) * held_up[:, side] for side in (0, 1))
        return [
            Twin(TaskKey("t", "d", "m"), "michel", seed, run(before[seed], old), run(factor * after[seed], new), "t")
            for seed, (old, new) in enumerate(held_up)
        ]

    def share(factor: float, count: int, methods: int) -> float:
        found = [slowdown(cells(draw, factor, count), 0.05 / methods) for draw in range(100)]
        return float(np.mean([not isinstance(each, str) and each.worse(Limits().slower) for each in found]))

    return share


@pytest.mark.parametrize(("count", "methods"), [(12, 25), (12, 1), (40, 25)])
def test_an_unchanged_scorer_is_hardly_ever_called_slower(alarms, count, methods):
    assert alarms(1.0, count, methods) <= 0.04


@pytest.mark.parametrize(("factor", "count", "methods", "power"), [(1.3, 12, 1, 0.85), (1.3, 40, 25, 0.95)])
def test_a_scorer_that_is_slower_by_a_third_is_found(alarms, factor, count, methods, power):
    assert alarms(factor, count, methods) >= power


def test_a_slower_scorer_is_named(keep, regress):
    for method in ("michel", "ae"):
        keep("before", method, seeds=SEEDS, scoring=lambda seed: 0.5 + 0.02 * (seed % 3))
        keep("after", method, seeds=SEEDS, scoring=lambda seed, method=method: 0.7 if method == "ae" else 0.5)
    code, said = regress()
    assert code == 1 and "FAILED  ae\n          scores 1." in said and "times as long (1." in said
    assert "same    michel" in said
    assert regress("--slower", "0.9")[0] == 0


def test_on_a_gpu_the_wall_time_counts(keep, regress):
    for name, seconds in ("before", 0.5), ("after", 5.0):
        keep(name, seeds=SEEDS, device="cuda", scoring=lambda seed, seconds=seconds: seconds)
    assert regress()[0] == 0


def test_the_level_is_shared_by_the_methods(keep, regress):
    """Of six cells, one method can be shown to be slower at 5 %, but not at 2.5 %."""
    for method in ("michel", "ae"):
        keep("before", method, seeds=range(6))
        keep("after", method, seeds=range(6), scoring=lambda seed: 5.0)
    assert "speed not judged: too few cells: at least 7 are needed" in regress()[1]
    code, said = regress("--methods", "ae")
    assert code == 1 and "FAILED  ae\n          scores 10" in said


def test_all_of_a_slowdown_is_told(keep, regress):
    keep("before", seeds=SEEDS)
    keep("after", seeds=SEEDS, scoring=lambda seed: 5.0 if seed != 3 else 50.0)
    code, said = regress("--slower", "1")
    assert code == 1 and "scores 10" in said


def test_one_cell_that_was_held_up_is_no_regression(keep, regress):
    keep("before", seeds=SEEDS)
    keep("after", seeds=SEEDS, scoring=lambda seed: 50.0 if seed == 3 else 0.5)
    assert regress()[0] == 0


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"seeds": range(3)}, {"seeds": range(3)}, "too few cells: at least 6 are needed"),
        ({"scoring": lambda seed: 0.001}, {"scoring": lambda seed: 0.002}, "scoring takes no time"),
        ({}, {"processor": "B"}, "other machine or versions"),
        ({}, {"orders": [list(range(7, -1, -1))]}, "other units were chosen"),
        ({}, {"measured": {"processor_seconds": None}}, "records without processor seconds"),
    ],
)
def test_what_cannot_be_told_is_said(keep, regress, before, after, said):
    keep("before", **{"seeds": SEEDS} | before)
    keep("after", **{"seeds": SEEDS} | after)
    assert f"speed not judged: {said}" in regress()[1]


def test_a_scorer_that_took_no_time_may_become_slow(keep, regress):
    keep("before", seeds=SEEDS, scoring=lambda seed: 0.001)
    keep("after", seeds=SEEDS, scoring=lambda seed: 1.0)
    code, said = regress()
    assert code == 1 and "200" in said  # times the least that can be measured


@pytest.mark.parametrize(("passes", "code"), [(128, 0), (140, 0), (256, 1)])
def test_passes_are_exact_and_elsewhere_a_cost(keep, regress, passes, code):
    keep("before")
    keep("after", processor="B", passes={"forward": passes, "backward": 0})
    found, said = regress()
    assert found == code and (f"takes up to {passes / 128:.2f} times the passes" in said) == (passes > 128)


@pytest.mark.parametrize("cells", [1, 2])
def test_passes_where_there_were_none_are_a_cost(keep, regress, cells):
    """Also where only one of several cells makes them."""
    for seed in range(cells):
        keep("before", seeds=[seed], passes={"forward": 0, "backward": 0})
        keep("after", seeds=[seed], processor="B", passes={"forward": 0 if seed else 128, "backward": 0})
    code, said = regress()
    assert code == 1 and "makes passes, and made none before" in said


def test_the_training_of_a_joint_method_is_its_cost(keep, regress):
    none = {"forward": 0, "backward": 0}
    trained = {"passes": {"forward": 100, "backward": 100}, "reports": {}}
    keep("before", "dsp-joint", passes=none, method_training=trained)
    more = {"passes": {"forward": 100, "backward": 150}, "reports": {}}
    keep("after", "dsp-joint", passes=none, method_training=more, processor="B")
    code, said = regress()
    assert code == 1 and "takes up to 1.25 times the passes" in said
