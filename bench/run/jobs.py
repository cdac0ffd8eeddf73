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
from tasks.models.steps import steps_told_to
from tasks.request import TaskSpec


@dataclass(frozen=True)
class TrainJob:
    """Train the model that ``cell``, and others after it, will use."""

    cell: Cell
    cache: Path

    @property
    def name(self) -> str:
        """What it does, for messages."""
        return f"training {self.cell.where}"

    def __call__(self) -> dict[str, Any]:
        """The report of the training; a failure is reported by each cell that needs the model. Raises OSError."""
        try:
            with Status(self.name) as status, steps_told_to(status.now):
                return open_task(self.cell.task).prepare(
                    self.cell.seed, Cache(self.cache), torch.device(self.cell.device)
                )
        except OSError:
            raise
        except Exception as error:
            return {"failure": reason_of(error)}

    def died(self, reason: str) -> dict[str, Any]:
        """The report where its process ended."""
        return {"failure": reason}


@dataclass(frozen=True)
class CellJob:
    """Run ``cell`` and write its record, which a TimingJob completes."""

    cell: Cell
    cache: Path
    out: Path
    timeout: float | None = None  # seconds
    needs: TrainJob | None = None  # the training of its model, if it is not trained yet

    @property
    def name(self) -> str:
        """What it does, for messages."""
        return f"{self.cell.method.label} on {self.cell.where}"

    def __call__(self) -> Record:
        """The record, as written. Raises OSError."""
        record, arrays = run_cell(self.cell, Cache(self.cache))
        try:
            Store(self.out).write(self.cell.name, record, arrays)
        except OSError:
            raise
        except Exception as error:  # what a method reports may be nothing that can be written
            return self.died(reason_of(error))
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
    timeout: float | None = None  # seconds

    @property
    def name(self) -> str:
        """What it does, for messages."""
        return f"timing {self.cell.method.label} on {self.cell.where}"

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


def ordered(
    cells: list[Cell], cache: Path, out: Path, workers: int, timeout: float | None = None
) -> list[TrainJob | CellJob]:
    """Jobs for ``cells``, seed by seed: the models of the next seed are trained before the cells of one are run.

    So the first seed of all tasks is done early. A first model and a first cell for each worker go ahead of all, so
    that problems show early.
    """
    first: dict[tuple[TaskSpec, int], Cell] = {}  # of each model, by task and seed
    for cell in cells:
        first.setdefault((cell.task, cell.seed), cell)
    training = {
        model: TrainJob(cell, cache)
        for model, cell in first.items()
        if not open_task(cell.task).prepared(cell.seed, Cache(cache))
    }
    runs = {cell: CellJob(cell, cache, out, timeout, training.get((cell.task, cell.seed))) for cell in cells}
    seeds = list(dict.fromkeys(cell.seed for cell in cells))
    models = sorted(training.values(), key=lambda job: seeds.index(job.cell.seed))
    jobs: list[TrainJob | CellJob] = [*models[:workers], *(runs.pop(job.cell) for job in models[:workers])]
    del models[:workers]
    for place, seed in enumerate(seeds):
        jobs += [job for job in models if job.cell.seed in seeds[: place + 2]]
        models = [job for job in models if job.cell.seed not in seeds[: place + 2]]
        jobs += [job for cell, job in runs.items() if cell.seed == seed]
    return jobs


def start_process() -> None:
    """What every process of a run does first."""
    quiet_libraries()
    load_plugins()
