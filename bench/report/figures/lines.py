"""The data of curves: for each method a mean and a band over seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.analysis.costs import forward_speedups
from bench.analysis.curves import curve, parameters_removed
from bench.analysis.stats.across import normalise
from bench.analysis.summary import mean_and_spread
from bench.records.schema import FinishedRecord, TaskKey
from bench.report.board import Board, keeps_all, removes_heads

Points = tuple[np.ndarray, np.ndarray]  # x and quality, (levels,)


@dataclass(frozen=True)
class Line:
    """A method's curve: means over seeds and their standard deviation, (levels,); NaN with one seed."""

    label: str
    x: np.ndarray
    y: np.ndarray
    spread: np.ndarray


def by_heads(record: FinishedRecord) -> Points | None:
    """Quality by share of units removed; None for a method that does not remove heads alone."""
    return curve(record) if removes_heads(record) else None


def by_parameters(record: FinishedRecord) -> Points | None:
    """Quality by share of all parameters removed; None for a method that removes nothing."""
    return None if keeps_all(record) else (parameters_removed(record), curve(record)[1])


def by_speed(record: FinishedRecord, batch: int) -> Points | None:
    """Quality by median latency at this batch size, relative to the unpruned model; None where it was not timed."""
    faster = forward_speedups(record, batch)
    timed = np.flatnonzero(np.isfinite(faster))
    if len(timed) < 2 or record.result.removed[timed[0]] or keeps_all(record):
        return None
    return 1 / faster[timed], curve(record)[1][timed]


def by_size(record: FinishedRecord) -> Points | None:
    """Quality by size, relative to the unpruned model; None for a method that removes nothing."""
    if keeps_all(record):
        return None
    size = np.array([level["model"] for level in record.result.megabytes])
    return size / size[0], curve(record)[1]


def of_task(board: Board, task: TaskKey, points: Callable[[FinishedRecord], Points | None]) -> list[Line]:
    """The curves of all methods on a task."""
    return [line for label in board.labels if (line := of_method(board, task, label, points))]


def of_method(
    board: Board, task: TaskKey, label: str, points: Callable[[FinishedRecord], Points | None]
) -> Line | None:
    """The curve of one method; None where it has none. Seeds measured at other levels than the first are left out."""
    found = [(record.result.removed, each) for record in board.of(task, label) if (each := points(record)) is not None]
    return _line(label, [each for removed, each in found if removed == found[0][0]])


def overall(board: Board, points: Callable[[FinishedRecord], Points | None]) -> list[Line]:
    """Normalised quality (chance 0, unpruned 1), averaged over ``board.averaged`` within each seed that all have.

    Seeds in which some task was measured at other levels than the tasks of the first are left out.
    """
    lines = []
    for label in board.labels:
        by_task = [{record.cell.seed: record for record in board.of(task, label)} for task in board.averaged]
        common = sorted(set.intersection(*map(set, by_task))) if by_task else []
        of_seeds = [[of_task[seed] for of_task in by_task] for seed in common]
        found: list[Points] = []
        first: FinishedRecord | None = None  # whose levels the others must have
        for records in of_seeds:
            curves = [(record, *each) for record in records if (each := points(record))]
            if len(curves) < len(records):
                continue
            first = first or records[0]
            if all(_levels_alike(first, record) for record in records) and len({len(x) for _, x, _ in curves}) == 1:
                x = np.mean([x for _, x, _ in curves], axis=0)
                y = np.mean([normalise(y, record.result.chance, y[0]) for record, _, y in curves], axis=0)
                found.append((x, y))
        if line := _line(label, found):
            lines.append(line)
    return lines


def _levels_alike(one: FinishedRecord, other: FinishedRecord) -> bool:
    """Whether both were measured at the same shares of units removed, but for rounding to whole units."""
    shares = [np.array(record.result.removed) / record.result.units for record in (one, other)]
    unit = 1 / min(one.result.units, other.result.units)
    return len(shares[0]) == len(shares[1]) and bool((np.abs(shares[0] - shares[1]) < unit).all())


def _line(label: str, found: list[Points]) -> Line | None:
    same = [each for each in found if len(each[0]) == len(found[0][0])]
    if not same:
        return None
    mean, spread = mean_and_spread(np.array([quality for _, quality in same]))
    return Line(label, np.mean([x for x, _ in same], axis=0), mean, spread)
