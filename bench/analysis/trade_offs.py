"""What each method loses, saves and costs at each level, on one task or as a mean over tasks with the same levels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from bench.analysis.controls import chooses_at_random
from bench.analysis.costs import cost_in_passes, forward_samples, forward_speedup
from bench.analysis.curves import curve, parameters_removed
from bench.analysis.kinds import kind
from bench.analysis.naming import seeds_in_words
from bench.analysis.quality import POINTS, quality_name
from bench.analysis.stats.across import seed_bootstrap, task_means
from bench.records.schema import FinishedRecord, TaskKey

ROUNDED = 6  # decimals of shares removed by which levels are the same
BySeed = Mapping[int, FinishedRecord]
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


@dataclass(frozen=True)
class TradeOffs:
    """The points of all methods that have every seed of every task, measured at the same levels.

    points: by label, for each level but 0, fewest removed first. kinds, costs: of every label in ``points``. random:
    the controls that choose at random. left_out: why other methods have no points.
    """

    tasks: tuple[TaskKey, ...]
    seeds: tuple[tuple[int, ...], ...]  # of each task
    unpruned: Unpruned
    points: Mapping[str, tuple[Point, ...]]
    kinds: Mapping[str, str]
    costs: Mapping[str, Cost]
    controls: frozenset[str]
    random: frozenset[str]
    left_out: Mapping[str, str]

    @property
    def batches(self) -> list[int]:
        """Batch sizes that some point was timed at."""
        return sorted({batch for points in self.points.values() for point in points for batch in point.speedups})

    @property
    def methods(self) -> list[str]:
        """Labels that are no controls, sorted."""
        return sorted(self.points.keys() - self.controls)


def levels_of(record: FinishedRecord) -> tuple[float, ...]:
    """Shares of units removed at each level, rounded so that those of models of different sizes can be compared."""
    return tuple(curve(record)[0].round(ROUNDED).tolist())


def sharing_levels(records: Iterable[FinishedRecord]) -> list[list[TaskKey]]:
    """Groups of two tasks or more whose quality is the same quantity, most of whose records share their levels."""
    levels: dict[TaskKey, Counter[tuple]] = defaultdict(Counter)
    for record in records:
        levels[record.task][quality_name(record), levels_of(record)] += 1
    groups: dict[tuple, list[TaskKey]] = defaultdict(list)
    for task in sorted(levels):
        groups[_most(levels[task])].append(task)
    return sorted(group for group in groups.values() if len(group) > 1)


def trade_offs(records: Iterable[FinishedRecord], timed: bool = True) -> TradeOffs:
    """The trade-offs of all ``records``: of one task, or of several that share their levels.

    Methods that remove no parameters have no points. The seeds of a task are those that most methods have there.
    timed: whether times may be used; those of several machines must not be averaged.
    """
    cells: dict[str, dict[TaskKey, dict[int, FinishedRecord]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if parameters_removed(record).any():
            cells[record.cell.label][record.task][record.cell.seed] = record
    tasks = tuple(sorted({task for of_task in cells.values() for task in of_task}))
    seeds = {task: _most(Counter(tuple(sorted(own[task])) for own in cells.values() if own[task])) for task in tasks}
    every = [record for own in cells.values() for of_task in own.values() for record in of_task.values()]
    levels = _most(Counter(map(levels_of, every))) if every else ()
    left_out = {label: why for label in sorted(cells) if (why := _lacks(cells[label], seeds, levels))}
    complete = {
        label: [[cells[label][task][seed] for seed in seeds[task]] for task in tasks]
        for label in sorted(cells.keys() - left_out.keys())
    }
    batches = _batches(complete.values()) if timed else []
    some = {label: own[0][0].cell for label, own in complete.items()}
    return TradeOffs(
        tasks=tasks,
        seeds=tuple(seeds[task] for task in tasks),
        unpruned=_unpruned(list(complete.values()), batches),
        points={
            label: tuple(_point(label, own, place, batches) for place in range(1, len(levels)))
            for label, own in complete.items()
        },
        kinds={label: kind(cell) for label, cell in some.items()},
        costs={label: _cost(own) for label, own in complete.items()},
        controls=frozenset(label for label, cell in some.items() if cell.control),
        random=frozenset(label for label, cell in some.items() if chooses_at_random(cell)),
        left_out=left_out,
    )


def _most(counted: Counter[tuple]) -> tuple:
    """The most frequent; of equally frequent ones the longest."""
    return max(counted, key=lambda each: (counted[each], len(each), each))


def _lacks(own: Mapping[TaskKey, BySeed], seeds: Mapping[TaskKey, tuple[int, ...]], levels: tuple[float, ...]) -> str:
    """What a method lacks to have points, in words; empty for nothing."""
    missing = {task: [seed for seed in of_task if seed not in own.get(task, {})] for task, of_task in seeds.items()}
    if any(missing.values()):
        several = len(seeds) > 1
        where = (f"{seeds_in_words(m)}{f' on {task.data}' if several else ''}" for task, m in missing.items() if m)
        return f"no result for {', and '.join(where)}"
    records = (own[task][seed] for task, of_task in seeds.items() for seed in of_task)
    return "" if all(levels_of(record) == levels for record in records) else "measured at other levels"


def _batches(cells: Iterable[Own]) -> list[int]:
    """Batch sizes that some record was timed at."""
    timed = (record.measured.latency for own in cells for task in own for record in task)
    return sorted({batch for latency in timed if latency for batch in latency.samples})


def _unpruned(cells: Sequence[Own], batches: Sequence[int]) -> Unpruned:
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


def _point(label: str, own: Own, place: int, batches: Sequence[int]) -> Point:
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
    """Mean size at the level ``place``; NaN of several models."""
    several = len({record.cell.model for task in own for record in task}) != 1
    return float("nan") if several else _mean(own, lambda record: record.result.megabytes[place]["model"])


def _means(rows: Sequence[tuple[np.ndarray, ...]]) -> list[Mean]:
    """The mean of each of ``rows``, which hold values of each task, (seeds,)."""
    scores = [np.stack(of_task) for of_task in zip(*rows, strict=True)]  # (rows, seeds) each
    found = seed_bootstrap(lambda drawn: task_means(drawn).mean(-1), scores)
    if found.low is None or found.high is None:
        return [Mean(float(value)) for value in found.value]
    return [Mean(*map(float, each)) for each in zip(found.value, found.low, found.high, strict=True)]


def _cost(own: Own) -> Cost:
    return Cost(
        seconds=_mean(own, lambda record: record.measured.scoring_seconds + record.measured.method_training_seconds),
        passes=_mean(own, lambda record: cost_in_passes(record).total),
    )


def _mean(own: Own, value: Callable[[FinishedRecord], float]) -> float:
    """Mean over tasks of the mean over seeds."""
    return float(np.mean([np.mean([value(record) for record in task]) for task in own]))
