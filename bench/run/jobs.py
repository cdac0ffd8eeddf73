"""The jobs of a run, and their order: train models, run cells, then time them. None writes a record."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.measure.cell import Arrays, describe, failed_record, of_the_machine, reason_of, run_cell
from bench.measure.cell_timing import time_cell
from bench.measure.status import Status
from bench.records.arrays import read_arrays
from bench.records.errors import InputError
from bench.records.schema import FinishedRecord, Record
from bench.records.storage.store import Store
from bench.run.other_runs import other_runs, this_run
from bench.suites.cells import Cell, open_task
from bench.suites.plugins import load_plugins, quiet_libraries
from tasks.models.cache import Cache
from tasks.models.steps import steps_reported_to
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
        """The report of the training, or of its failure. Raises OSError as ``run_cell`` does."""
        try:
            with Status(self.name) as status, steps_reported_to(status.now):
                return open_task(self.cell.task).prepare(
                    self.cell.seed, Cache(self.cache), torch.device(self.cell.device)
                )
        except Exception as error:
            if of_the_machine(error):
                raise
            trace = traceback.format_exc().encode("utf-8", "backslashreplace").decode("utf-8")
            return {"failure": reason_of(error), "traceback": trace}

    def died(self, reason: str) -> dict[str, Any]:
        """The report where its process ended."""
        return {"failure": reason}

    def failed(self, report: dict[str, Any]) -> bool:
        """Whether there is no model, so that no cell that needs it is run, and the seconds tell nothing of others."""
        return "failure" in report


@dataclass(frozen=True)
class CellJob:
    """Run ``cell``. A TimingJob completes its record."""

    cell: Cell
    cache: Path
    timeout: float | None = None  # seconds
    needs: TrainJob | None = None  # the training of its model, if it is not trained yet

    @property
    def name(self) -> str:
        """What it does, for messages."""
        return f"{self.cell.method.label} on {self.cell.where}"

    def __call__(self) -> tuple[Record, Arrays]:
        """The record and its arrays. Raises OSError as ``run_cell`` does."""
        return run_cell(self.cell, Cache(self.cache))

    def died(self, reason: str) -> tuple[Record, Arrays]:
        """The record of a cell whose process ended, and no arrays."""
        return failed_record(self.cell, reason), {}

    def without(self, report: dict[str, Any]) -> tuple[Record, Arrays]:
        """The record of a cell whose model was not trained, as ``report`` says, and no arrays."""
        reason, trace = report["failure"], report.get("traceback")
        return failed_record(self.cell, reason if trace else without_model(reason), trace), {}

    def failed(self, made: tuple[Record, Arrays]) -> bool:
        """Whether there is no result, so that the seconds tell nothing of other cells."""
        return not isinstance(made[0], FinishedRecord)

    def write(self, made: tuple[Record, Arrays], store: Store) -> Record:
        """Write what was made; the record as written. Raises OSError, and InputError as the store does.

        What it says of the cell is what this process knows: another may have read copies of the user's files.
        """
        record, arrays = made
        record = record.updated(cell=describe(self.cell))
        try:
            store.write(self.cell.name, record, arrays)
        except (OSError, InputError):
            raise
        except Exception as error:  # what a method reports may be nothing that can be written
            record, arrays = self.died(reason_of(error))
            store.write(self.cell.name, record, arrays)
        return record


@dataclass(frozen=True)
class TimingJob:
    """Time the smaller models of ``cell``. Nothing else of the run is at work on its machine meanwhile."""

    cell: Cell
    cache: Path
    out: Path
    timeout: float | None = None  # seconds

    @property
    def name(self) -> str:
        """What it does, for messages."""
        return f"timing {self.cell.method.label} on {self.cell.where}"

    def to_send(self) -> Timing | Unreadable:
        """What is sent to the process, which may not reach the records. Raises OSError."""
        store = Store(self.out)
        path = store.path(self.cell.name)
        try:
            record, arrays = store.read(path), read_arrays(path)
        except OSError:
            raise
        except Exception as error:
            return Unreadable(reason_of(error))
        if not isinstance(record, FinishedRecord):
            return Unreadable("its record was changed meanwhile")
        return Timing(self.cell, self.cache, record, arrays, this_run(), self.timeout)

    def failed(self, timed: FinishedRecord | str) -> bool:
        """Whether it was not timed, so that the seconds tell nothing of other cells."""
        return isinstance(timed, str)


@dataclass(frozen=True)
class Timing:
    """A TimingJob with what it needs of the record. run: the name of the run that it is of."""

    cell: Cell
    cache: Path
    record: FinishedRecord
    arrays: Arrays
    run: str
    timeout: float | None = None  # seconds

    def __call__(self) -> FinishedRecord | str:
        """The record with its latency, or why it failed, in one line. Raises OSError as ``run_cell`` does."""
        try:
            return time_cell(self.cell, self.record, self.arrays, Cache(self.cache), alone=self._alone)
        except Exception as error:
            if of_the_machine(error):
                raise
            return reason_of(error)

    def _alone(self) -> bool | None:
        """Whether no other run of this user is at work on this machine; None if that is not known."""
        others = other_runs(self.run)
        return None if others is None else not others


@dataclass(frozen=True)
class Unreadable:
    """A TimingJob whose record cannot be used."""

    reason: str

    def __call__(self) -> str:
        """Why."""
        return self.reason


RunJob = TrainJob | CellJob | TimingJob


def without_model(reason: str) -> str:
    """Why something failed whose model was not trained for ``reason``."""
    return f"its model was not trained: {reason}"


def ordered_jobs(
    cells: Sequence[Cell], cache: Path, workers: int, timeout: float | None = None, timed: Sequence[Cell] = ()
) -> list[TrainJob | CellJob]:
    """Jobs for ``cells``, seed by seed: the models of the next seed are trained before the cells of one are run.

    So the first seed of all tasks is done early. A first model and a first cell for each worker go ahead of all, so
    that problems show early. timed: cells that are only timed, later, and whose models are trained here too.
    """
    first: dict[tuple[TaskSpec, int], Cell] = {}  # of each model, by task and seed
    for cell in (*cells, *timed):
        first.setdefault((cell.task, cell.seed), cell)
    training = {
        model: TrainJob(cell, cache)
        for model, cell in first.items()
        if not open_task(cell.task).prepared(cell.seed, Cache(cache))
    }
    runs = {cell: CellJob(cell, cache, timeout, training.get((cell.task, cell.seed))) for cell in cells}
    models = deque(sorted(training.values(), key=lambda job: job.cell.seed))
    ahead = [models.popleft() for _ in range(min(workers, len(models)))]
    jobs: list[TrainJob | CellJob] = [*ahead, *(runs.pop(job.cell) for job in ahead if job.cell in runs)]
    of_seed: dict[int, list[CellJob]] = {seed: [] for seed in sorted({cell.seed for cell in first.values()})}
    for cell, job in runs.items():
        of_seed[cell.seed].append(job)
    seeds = list(of_seed)  # a task of which less is left does not move its seed to the front
    for place, seed in enumerate(seeds):
        while models and models[0].cell.seed in seeds[place : place + 2]:
            jobs.append(models.popleft())
        jobs += of_seed[seed]
    return jobs


def start_process() -> None:
    """What every process of a run does first."""
    quiet_libraries()
    load_plugins()
