"""The records of a folder laid out for a reader: tasks, methods, seeds, and where each number comes from."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from bench.analysis.cell_metrics import metrics_table
from bench.analysis.curves import removes
from bench.analysis.excluded_tasks import tasks_at_chance
from bench.analysis.naming import short_names
from bench.records.errors import InputError
from bench.records.schema import FinishedRecord, TaskKey
from bench.records.store import read_current
from bench.report.notes import notes


@dataclass(frozen=True)
class Board:
    """The current records of a folder; ``records`` are the finished ones, by path, in the order of their names."""

    folder: Path
    records: dict[Path, FinishedRecord]
    notes: tuple[str, ...]  # failures, mixed settings and origins, records left out: a line each

    @cached_property
    def table(self) -> pd.DataFrame:
        """``bench.analysis.cell_metrics.metrics_table`` of the records."""
        return metrics_table(self.records[path] for path in sorted(self.records))

    @cached_property
    def tasks(self) -> list[TaskKey]:
        """Sorted."""
        return sorted({record.task for record in self.records.values()})

    @cached_property
    def at_chance(self) -> dict[TaskKey, str]:
        """Tasks that have no area, as their unpruned model is no better than chance, and what it had."""
        return tasks_at_chance(self.table)

    @cached_property
    def averaged(self) -> list[TaskKey]:
        """The tasks that means are taken over: those above chance."""
        return [task for task in self.tasks if task not in self.at_chance]

    @cached_property
    def labels(self) -> list[str]:
        """Methods, sorted."""
        return sorted({record.cell.label for record in self.records.values()})

    @cached_property
    def machines(self) -> list[str]:
        """What latency was measured on, sorted."""
        return sorted({machine(record) for record in self.records.values()})

    def on(self, which: str) -> Board:
        """The records of one machine."""
        return Board(self.folder, {p: r for p, r in self.records.items() if machine(r) == which}, self.notes)

    @cached_property
    def _cells(self) -> dict[tuple[TaskKey, str], dict[Path, FinishedRecord]]:
        cells: dict[tuple[TaskKey, str], dict[Path, FinishedRecord]] = defaultdict(dict)
        for path, record in sorted(self.records.items(), key=lambda item: item[1].cell.seed):
            cells[record.task, record.cell.label][path] = record
        return dict(cells)

    def of(self, task: TaskKey, label: str) -> list[FinishedRecord]:
        """The records of a method on a task, by seed; empty where there is none."""
        return list(self._cells.get((task, label), {}).values())

    def paths(self, task: TaskKey, label: str) -> dict[Path, FinishedRecord]:
        """The same with the file of each."""
        return self._cells.get((task, label), {})

    def any_of(self, label: str) -> FinishedRecord:
        """A record of a method, for what all of them share."""
        return next(record for task in self.tasks for record in self.of(task, label))

    def seeds(self, task: TaskKey) -> tuple[int, ...]:
        """The seeds that most methods have on a task; of equally frequent sets the largest."""
        sets = Counter(
            tuple(record.cell.seed for record in records)
            for (other, _), records in ((key, list(cells.values())) for key, cells in self._cells.items())
            if other == task
        )
        return max(sets, key=lambda seeds: (sets[seeds], len(seeds), seeds))

    def name(self, task: TaskKey) -> str:
        """The adapter's name, or that with data and model where another task has the same."""
        return short_names(self.tasks)[task]


def read(folder: Path) -> Board:
    """The board of the records in ``folder``. Raises InputError where no cell has a result."""
    current, others = read_current(folder)
    done = {path: record for path, record in current.items() if isinstance(record, FinishedRecord)}
    if not done:
        raise InputError(f"{folder}: no cell there has a result: there is nothing to report")
    told = notes(list(current.values()))
    if others:
        told.append(f"left out: {others} records made under another protocol")
    return Board(folder, done, tuple(told))


def kind(record: FinishedRecord) -> str:
    """How a reader tells methods apart: a score, gates trained for each level, or a control of either."""
    cell = record.cell
    trained = "trained" if cell.trained else "score"
    if cell.control:
        return "trained control" if cell.trained else "control"
    return trained


def removes_heads(record: FinishedRecord) -> bool:
    """Whether a method removes heads and nothing else: what can be compared at a share of heads."""
    return removes(record) == "heads" and not keeps_all(record)


def keeps_all(record: FinishedRecord) -> bool:
    """Whether nothing is removed at any level, as by the control ``none``."""
    result = record.result
    kept = result.kept
    return kept is not None and not result.neurons and all(len(units) == result.units for units in kept)


def machine(record: FinishedRecord) -> str:
    """What latency was measured on: figures of two machines are never averaged."""
    latency, came = record.measured.latency, record.provenance
    if latency is None:
        return f"{came.processor}, not timed"
    return f"{came.processor}, {latency.device}, {latency.dtype}, {latency.threads} thread" + (
        "s" if latency.threads != 1 else ""
    )
