"""The records of a folder by task, method and seed, with what tables, figures and pages ask of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from bench.analysis.cell_metrics import metrics_table
from bench.analysis.comparing.controls import controls_of
from bench.analysis.comparing.over_controls import Over, over_controls
from bench.analysis.curves import removes
from bench.analysis.excluded_tasks import tasks_at_chance
from bench.analysis.kinds import SCORE, kind
from bench.analysis.machines import machine, machines, makers
from bench.analysis.naming import count, short_names
from bench.analysis.summary import TASK
from bench.analysis.usual_seeds import usual_seeds
from bench.records.errors import InputError
from bench.records.schema import FinishedRecord, Record, TaskKey
from bench.records.storage.current import read_current
from bench.report.notes import notes


@dataclass(frozen=True)
class Board:
    """The current records of a folder."""

    folder: Path
    records: dict[Path, FinishedRecord]
    notes: tuple[str, ...] = ()  # one line each: failures, mixed settings and origins, records that are left out

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per finished cell, as ``bench.analysis.cell_metrics.metrics_table`` makes it."""
        return metrics_table(self.records[path] for path in sorted(self.records))

    @cached_property
    def areas(self) -> dict[tuple[str, str, str, str, int], float]:
        """The area of each cell by the three parts of its task's key, its method and its seed."""
        cells = self.table[[*TASK, "label", "seed"]].itertuples(index=False, name=None)
        return dict(zip(cells, self.table["area"], strict=True))

    @cached_property
    def tasks(self) -> list[TaskKey]:
        """Sorted."""
        return sorted({record.task for record in self.records.values()})

    @cached_property
    def at_chance(self) -> dict[TaskKey, str]:
        """Tasks whose unpruned model is no better than chance, so that they have no area, with its quality."""
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
        """The machines that latency was measured on, sorted; none where it was never timed."""
        return machines(self.records.values())

    @cached_property
    def makers(self) -> list[str]:
        """The processors and devices that cells were run on, sorted."""
        return makers(self.records.values())

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
        """The records of a method on a task, by seed; empty where there are none."""
        return list(self.paths(task, label).values())

    def paths(self, task: TaskKey, label: str) -> dict[Path, FinishedRecord]:
        """The same records by their files."""
        return self._cells.get((task, label), {})

    def of_task(self, task: TaskKey) -> list[FinishedRecord]:
        """The records of all methods on a task, by method and seed."""
        return [record for label in self.labels for record in self.of(task, label)]

    def any_of(self, label: str) -> FinishedRecord:
        """One record of a method, for what all of its records share."""
        return next(record for task in self.tasks for record in self.of(task, label))

    @cached_property
    def some(self) -> dict[str, FinishedRecord]:
        """One record of each method, by its label."""
        return {label: self.any_of(label) for label in self.labels}

    def controls(self, label: str) -> dict[str, str]:
        """The controls of a method (``bench.analysis.comparing.controls.controls_of``)."""
        return controls_of(self.some, label)

    def over_controls(
        self, tasks: Sequence[TaskKey], seeds: Mapping[TaskKey, Collection[int]] | None = None
    ) -> dict[str, dict[str, Over]]:
        """For each method and each of its controls how much more it keeps on all ``tasks``.

        seeds: those that count, of each task for which they are given.
        """
        some = seeds or {}
        records = (record for task in tasks for record in self.of_task(task))
        return over_controls(r for r in records if r.task not in some or r.cell.seed in some[r.task])

    def seeds(self, tasks: Sequence[TaskKey]) -> dict[TaskKey, tuple[int, ...]]:
        """Of each of ``tasks`` the seeds that count, as ``bench.analysis.usual_seeds.usual_seeds`` finds them."""
        seeds: dict[str, dict[TaskKey, list[int]]] = defaultdict(dict)
        for (task, label), records in self._cells.items():
            seeds[label][task] = [record.cell.seed for record in records.values()]
        return usual_seeds(seeds, tasks)

    @cached_property
    def _names(self) -> dict[TaskKey, str]:
        return short_names(self.tasks)

    def name(self, task: TaskKey) -> str:
        """The shortest name of a task that is clear among the board's tasks."""
        return self._names[task]


def read(folder: Path) -> Board:
    """The board of the records in ``folder``. Raises InputError where there are none."""
    return make_board(*read_current(folder), folder)


def read_finished(folder: Path) -> Board:
    """The board of the records in ``folder``. Raises InputError where no cell has a result."""
    return with_results(read(folder))


def with_results(board: Board) -> Board:
    """``board`` itself. Raises InputError where no cell has a result."""
    if not board.records:
        raise InputError(f"{board.folder}: no cell has a result, so there is nothing to report")
    return board


def make_board(records: Mapping[Path, Record], other_protocol: int = 0, folder: Path = Path()) -> Board:
    """The board of ``records``, by their files; ``other_protocol`` is the number of records that were left out."""
    told = notes(list(records.values()))
    if other_protocol:
        told.append(f"left out: {count(other_protocol, 'record')} made under another protocol")
    done = {path: record for path, record in records.items() if isinstance(record, FinishedRecord)}
    return Board(folder, done, tuple(told))


def role(record: FinishedRecord) -> str:
    """The kind of a method, or that it is a control of a kind: ``control``, ``recovered control`` and so on."""
    own = kind(record.cell)
    if record.cell.control:
        return "control" if own == SCORE else f"{own} control"
    return own


def removes_heads(record: FinishedRecord) -> bool:
    """Whether a method removes heads and nothing else, so that it can be compared at equal shares of heads."""
    return removes(record) == "heads" and not keeps_all(record)


def keeps_all(record: FinishedRecord) -> bool:
    """Whether nothing is removed at any level, as by the control ``none``."""
    result = record.result
    return result.kept is not None and not result.neurons and all(len(units) == result.units for units in result.kept)
