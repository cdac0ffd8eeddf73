"""The jobs of a run, and their order: train models, run cells, then time them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.measure.cell import failed_record, reason_of, run_cell
from bench.measure.cell_timing import time_cell
from bench.measure.status import Status
from bench.records.schema import FinishedRecord, Record
from bench.records.store import Store, read_arrays
from bench.run.other_runs import other_runs
from bench.suites.cells import Cell, open_task
from bench.suites.plugins import load_plugins, quiet_libraries
from tasks.models.cache import Cache


@dataclass(frozen=True)
class TrainJob:
    """Train the model that ``cell``, and others after it, will use."""

    cell: Cell
    cache: Path

    def __call__(self) -> dict[str, Any]:
        """The report of the training; a failure is reported by each cell that needs the model. Raises OSError."""
        try:
            with Status(f"training {self.cell.where}"):
                return open_task(self.cell.task).prepare(
                    self.cell.seed, Cache(self.cache), torch.device(self.cell.device)
                )
        except OSError:
            raise
        except Exception as error:
            return {"failure": str(error).strip() or type(error).__name__}

    def died(self, reason: str) -> dict[str, Any]:
        """The report where its process ended."""
        return {"failure": reason}


@dataclass(frozen=True)
class CellJob:
    """Run ``cell`` and write its record, which a TimingJob completes."""

    cell: Cell
    cache: Path
    out: Path

    def __call__(self) -> Record:
        """The record, as written."""
        record, arrays = run_cell(self.cell, Cache(self.cache))
        Store(self.out).write(self.cell.name, record, arrays)
        return record

    def died(self, reason: str) -> Record:
        """Write and return the record of a cell whose process ended."""
        record = failed_record(self.cell, reason)
        Store(self.out).write(self.cell.name, record)
        return record


@dataclass(frozen=True)
class TimingJob:
    """Time the smaller models of ``cell``, and add that to its record. Nothing else of the run is at work meanwhile."""

    cell: Cell
    cache: Path
    out: Path

    def __call__(self) -> str:
        """Why it failed, in one line; empty where it did not. Raises OSError."""
        store = Store(self.out)
        path = store.path(self.cell.name)
        try:
            record = store.read(path)
            if isinstance(record, FinishedRecord):
                timed = time_cell(self.cell, record, read_arrays(path), Cache(self.cache), alone=not other_runs())
                store.update(self.cell.name, timed)
        except OSError:
            raise
        except Exception as error:
            return reason_of(error)
        return ""

    def died(self, reason: str) -> str:
        """The reason, where its process ended."""
        return reason


Job = TrainJob | CellJob | TimingJob


def ordered(cells: list[Cell], cache: Path, out: Path, workers: int) -> list[TrainJob | CellJob]:
    """Jobs for ``cells``: a first model and a first cell for each worker, then all other models, then all other cells.

    So the first results come early, and problems show early.
    """
    models: dict[tuple, Cell] = {}
    for cell in cells:
        if not open_task(cell.task).prepared(cell.seed, Cache(cache)):
            models.setdefault((cell.task, cell.seed), cell)
    # Different tasks first, so that every task is seen to work before the second seed of any.
    training = sorted(models, key=lambda model: [seed for _, seed in models].index(model[1]))
    first = [TrainJob(models[model], cache) for model in training[:workers]]
    early = [next(cell for cell in cells if (cell.task, cell.seed) == model) for model in training[:workers]]
    rest = [TrainJob(models[model], cache) for model in training[workers:]]
    late = [CellJob(cell, cache, out) for cell in cells if cell not in early]
    return [*first, *(CellJob(cell, cache, out) for cell in early), *rest, *late]


def start_process() -> None:
    """What every process of a run does first."""
    quiet_libraries()
    load_plugins()
