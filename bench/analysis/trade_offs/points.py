"""What a method loses, saves and costs, from the records of one or several tasks by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from bench.analysis.costs import cost_in_passes, draws, forward_samples
from bench.analysis.curves import curve, parameters_removed
from bench.analysis.quality import POINTS
from bench.analysis.stats.across import mean_of_tasks, seed_bootstrap
from bench.records.schema import FinishedRecord

ALIKE = 1.01  # times the size of the same model on another task: classifiers differ a little
Own = Sequence[Sequence[FinishedRecord]]  # the records of a method, for each task by seed
Speedups = Mapping[int, Sequence[np.ndarray]]  # by batch size for each task, (seeds, levels); NaN where not timed


@dataclass(frozen=True)
class Mean:
    """A mean over tasks of the mean over seeds, with a 95 % bootstrap interval over seeds; None with too few seeds."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, eq=False)
class Point:
    """A method at one level.

    removed, left: shares of its units removed, and of all parameters left. lost: points of quality. megabytes: NaN as a
    mean over several models. speedups: of a forward pass by batch size, relative to the unpruned model, pooled as
    in ``pooled_speedups``; a batch size that was not timed in every seed is missing. losses: for each task the points
    lost in each seed, (seeds,), which ``lost`` is the mean of.
    """

    label: str
    removed: float
    lost: Mean
    left: float
    megabytes: float
    speedups: Mapping[int, Mean]
    losses: tuple[np.ndarray, ...]

    def time(self, batch: int) -> Mean:
        """Its share of the unpruned model's time; NaN where it was not timed."""
        faster = self.speedups.get(batch)
        if faster is None:
            return Mean(float("nan"))
        ends = (None, None) if faster.low is None or faster.high is None else (1 / faster.high, 1 / faster.low)
        return Mean(1 / faster.value, *ends)


@dataclass(frozen=True)
class Unpruned:
    """The unpruned model: quality in points, size (NaN as a mean over several models), and seconds by batch size."""

    quality: float
    megabytes: float
    seconds: Mapping[int, float]


@dataclass(frozen=True)
class Cost:
    """What it costs to choose what is removed: means over tasks and seeds.

    seconds: of scoring or, where a method trains, of its training at all levels; NaN if cells were run on several
    machines. passes: examples sent through the model forward and backward.
    """

    seconds: float
    passes: float


def batches_of(cells: Iterable[Own]) -> list[int]:
    """Batch sizes that some record was timed at."""
    timed = (record.measured.latency for own in cells for task in own for record in task)
    return sorted({batch for latency in timed if latency for batch in latency.samples})


def unpruned_of(cells: Sequence[Own], batches: Sequence[int]) -> Unpruned:
    """Means over tasks; of a task the mean quality, and the median of the medians of all cells' times."""
    seconds = {}
    for batch in batches:
        by_task = [
            [median(timed) for own in cells for record in own[task] if (timed := forward_samples(record, batch).get(0))]
            for task in range(len(cells[0]))
        ]
        if all(by_task):
            seconds[batch] = float(np.mean([median(each) for each in by_task]))
    if not cells:
        return Unpruned(float("nan"), float("nan"), seconds)
    first = cells[0]
    return Unpruned(POINTS * float(mean_of(first, lambda record: curve(record)[1][0])), _megabytes(first)[0], seconds)


def points_of(label: str, own: Own, speedups_of: Speedups) -> tuple[Point, ...]:
    """The points at each level that leaves a choice, of records that have the same levels.

    With nothing or everything removed, methods that train no weights all have the same model.
    """
    curves = [np.stack([curve(record)[1] for record in task]) for task in own]
    losses = [POINTS * (each[:, :1] - each) for each in curves]  # (seeds, levels) of each task
    left = 1 - mean_of(own, parameters_removed)
    megabytes = _megabytes(own)
    points = []
    for place in range(1, len(left)):
        removed = _level(own[0][0], place)
        if removed == 1:
            break
        lost = tuple(each[:, place] for each in losses)
        timed = {batch: tuple(each[:, place] for each in of_tasks) for batch, of_tasks in speedups_of.items()}
        faster = {batch: of_tasks for batch, of_tasks in timed.items() if all(np.isfinite(e).all() for e in of_tasks)}
        mean_lost, *speedups = _means([lost, *faster.values()])
        points.append(
            Point(
                label=label,
                removed=removed,
                lost=mean_lost,
                left=float(left[place]),
                megabytes=megabytes[place],
                speedups=dict(zip(faster, speedups, strict=True)),
                losses=lost,
            )
        )
    return tuple(points)


def _level(record: FinishedRecord, place: int) -> float:
    return record.result.removed[place] / record.result.units


def _megabytes(own: Own) -> list[float]:
    """Mean size at each level; NaN of several models, or of one that tasks give other sizes."""
    models = {record.cell.model for task in own for record in task}
    sizes = [record.result.megabytes[0]["model"] for task in own for record in task]
    if len(models) != 1 or max(sizes) > ALIKE * min(sizes):
        return [float("nan")] * len(own[0][0].result.megabytes)
    return mean_of(own, lambda record: [size["model"] for size in record.result.megabytes]).tolist()


def _means(rows: Sequence[tuple[np.ndarray, ...]]) -> list[Mean]:
    """The mean of each of ``rows``, which hold values of each task, (seeds,)."""
    scores = [np.stack(of_task) for of_task in zip(*rows, strict=True)]  # (rows, seeds) each
    found = seed_bootstrap(mean_of_tasks, scores)
    if found.low is None or found.high is None:
        return [Mean(float(value)) for value in found.value]
    return [Mean(*map(float, each)) for each in zip(found.value, found.low, found.high, strict=True)]


def cost_of(own: Own, one_machine: bool) -> Cost:
    """What it costs to choose what is removed. one_machine: whether one ran all cells that are compared."""

    def cost(record: FinishedRecord) -> tuple[float, float]:
        measured = record.measured
        seconds = measured.scoring_seconds + measured.method_training_seconds
        return seconds / draws(record), cost_in_passes(record)

    seconds, passes = mean_of(own, cost).tolist()
    return Cost(seconds if one_machine else float("nan"), passes)


def mean_of(own: Own, values: Callable[[FinishedRecord], Any]) -> np.ndarray:
    """Mean over tasks of the mean over seeds of what ``values`` says of a record, of any shape."""
    return np.mean([np.mean([values(record) for record in task], axis=0) for task in own], axis=0)
