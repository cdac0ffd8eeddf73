"""What a method loses, saves and costs, from the records of one or several tasks by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from bench.analysis.costs import cost_in_passes, forward_samples, forward_speedup
from bench.analysis.curves import curve, parameters_removed
from bench.analysis.quality import POINTS
from bench.analysis.stats.across import seed_bootstrap, task_means
from bench.records.schema import FinishedRecord

ALIKE = 1.01  # times the size of the same model on another task: classifiers differ a little
Own = Sequence[Sequence[FinishedRecord]]  # the records of a method, for each task by seed


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
    mean over several models. speedups: of a forward pass by batch size, relative to the unpruned model in the same
    interleaved repeats; a batch size that was not timed in every seed is missing. losses: for each task the points lost
    in each seed, (seeds,), which ``lost`` is the mean of.
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

    seconds: of scoring or, where a method trains, of its training at all levels. passes: examples sent through the
    model forward and backward.
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
    first = cells[0] if cells else []
    quality = POINTS * _mean(first, lambda record: curve(record)[1][0]) if first else float("nan")
    return Unpruned(quality, _megabytes(first, 0), seconds)


def point_of(label: str, own: Own, place: int, batches: Sequence[int]) -> Point:
    """The point at the level ``place``."""
    losses = tuple(POINTS * np.array([np.subtract(*curve(record)[1][[0, place]]) for record in task]) for task in own)
    timed = {batch: tuple(_speedups(task, batch, place) for task in own) for batch in batches}
    known = {batch: each for batch, each in timed.items() if all(np.isfinite(values).all() for values in each)}
    lost, *speedups = _means([losses, *known.values()])
    return Point(
        label=label,
        removed=_level(own[0][0], place),
        lost=lost,
        left=1 - _mean(own, lambda record: parameters_removed(record)[place]),
        megabytes=_megabytes(own, place),
        speedups=dict(zip(known, speedups, strict=True)),
        losses=losses,
    )


def _speedups(records: Sequence[FinishedRecord], batch: int, place: int) -> np.ndarray:
    return np.array([forward_speedup(record, batch, _level(record, place)) for record in records])


def _level(record: FinishedRecord, place: int) -> float:
    return record.result.removed[place] / record.result.units


def _megabytes(own: Own, place: int) -> float:
    """Mean size at the level ``place``; NaN of several models, or of one that tasks give other sizes."""
    models = {record.cell.model for task in own for record in task}
    sizes = [record.result.megabytes[0]["model"] for task in own for record in task]
    if len(models) != 1 or max(sizes) > ALIKE * min(sizes):
        return float("nan")
    return _mean(own, lambda record: record.result.megabytes[place]["model"])


def _means(rows: Sequence[tuple[np.ndarray, ...]]) -> list[Mean]:
    """The mean of each of ``rows``, which hold values of each task, (seeds,)."""
    scores = [np.stack(of_task) for of_task in zip(*rows, strict=True)]  # (rows, seeds) each
    found = seed_bootstrap(lambda drawn: task_means(drawn).mean(-1), scores)
    if found.low is None or found.high is None:
        return [Mean(float(value)) for value in found.value]
    return [Mean(*map(float, each)) for each in zip(found.value, found.low, found.high, strict=True)]


def cost_of(own: Own) -> Cost:
    """Of choosing what is removed."""
    return Cost(
        seconds=_mean(own, lambda record: record.measured.scoring_seconds + record.measured.method_training_seconds),
        passes=_mean(own, lambda record: cost_in_passes(record).total),
    )


def _mean(own: Own, value: Callable[[FinishedRecord], float]) -> float:
    """Mean over tasks of the mean over seeds."""
    return float(np.mean([np.mean([value(record) for record in task]) for task in own]))
