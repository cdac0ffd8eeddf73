"""The cells of a run as methods are compared by them: a finished cell is one sample, its random draws averaged."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bench.analysis.curves import curve, parameters_removed
from bench.records.arrays import read_arrays, read_outcomes
from bench.records.schema import FailedRecord, FinishedRecord, TaskKey
from bench.records.storage.current import read_current


@dataclass(frozen=True, eq=False)
class FinishedCell:
    """A finished record, and the file that it is in."""

    record: FinishedRecord
    path: Path

    @cached_property
    def shares(self) -> np.ndarray:
        """Share of units removed at each level, (levels,)."""
        return curve(self.record)[0]

    @cached_property
    def quality(self) -> np.ndarray:
        """Quality at each level, (levels,), averaged over draws."""
        return curve(self.record)[1]

    @cached_property
    def parameters(self) -> np.ndarray:
        """Share of parameters removed at each level, (levels,)."""
        return parameters_removed(self.record)

    def outcomes(self, level: int) -> np.ndarray:
        """Share of draws that get each test example right at the level with this index, (N,). Raises InputError."""
        return read_outcomes(self.path)[:, level].mean(0)

    def statistics(self, metric: str, level: int) -> np.ndarray:
        """What each test example adds to ``metric`` at the level with this index, (draws, N, numbers).

        Raises InputError.
        """
        return read_arrays(self.path)[f"statistics.{metric}"][:, level]


SeedPairs = dict[int, tuple[FinishedCell, FinishedCell]]  # cells of two methods on one task by seed, ascending


@dataclass(frozen=True)
class RunResults:
    """The cells of a folder, and what is not among them."""

    cells: tuple[FinishedCell, ...]
    failed: tuple[FailedRecord, ...]
    other_protocol: int  # number of records that were made under another protocol

    def tasks(self) -> list[TaskKey]:
        """Tasks with a finished cell, sorted."""
        return sorted({cell.record.task for cell in self.cells})

    def labels(self) -> list[str]:
        """Labels of the methods with a finished cell, sorted."""
        return sorted({cell.record.cell.label for cell in self.cells})

    def of(self, task: TaskKey, label: str) -> dict[int, FinishedCell]:
        """The finished cells of a method on a task, by seed, ascending."""
        return self._by_method.get((task, label), {})

    @cached_property
    def _by_method(self) -> dict[tuple[TaskKey, str], dict[int, FinishedCell]]:
        found: dict[tuple[TaskKey, str], dict[int, FinishedCell]] = defaultdict(dict)
        for cell in sorted(self.cells, key=lambda cell: cell.record.cell.seed):
            found[cell.record.task, cell.record.cell.label][cell.record.cell.seed] = cell
        return found


def read_results(folder: Path) -> RunResults:
    """The cells of the records in ``folder`` that were made under the current protocol.

    Raises InputError if there are none, or one is corrupt.
    """
    current, others = read_current(folder)
    return RunResults(
        cells=tuple(
            FinishedCell(record, path) for path, record in current.items() if isinstance(record, FinishedRecord)
        ),
        failed=tuple(record for record in current.values() if isinstance(record, FailedRecord)),
        other_protocol=others,
    )
