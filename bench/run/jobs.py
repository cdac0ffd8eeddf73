"""The two jobs of a run, train a model and run a cell, and the order in which they are best done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.measure.cell import describe, run_cell
from bench.measure.exclusive import beside_others
from bench.measure.status import Heartbeat
from bench.records.provenance import provenance
from bench.records.store import Store
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
            with beside_others(), Heartbeat(f"training {self.cell.where}"):
                return open_task(self.cell.task).prepare(
                    self.cell.seed, Cache(self.cache), torch.device(self.cell.device)
                )
        except OSError:
            raise
        except Exception as error:
            return {"failure": str(error).strip() or type(error).__name__}


@dataclass(frozen=True)
class CellJob:
    """Run ``cell`` and write its record."""

    cell: Cell
    cache: Path
    out: Path

    def __call__(self) -> dict[str, Any]:
        """The record, as written."""
        record, arrays = run_cell(self.cell, Cache(self.cache))
        Store(self.out).write(self.cell, record, arrays)
        return record

    def died(self, reason: str) -> dict[str, Any]:
        """Write and return the record of a cell whose process ended."""
        record = {
            "key": self.cell.key,
            "cell": describe(self.cell),
            "provenance": provenance(),
            "status": "failed",
            "reason": reason,
        }
        Store(self.out).write(self.cell, record, {})
        return record


def ordered(cells: list[Cell], cache: Path, out: Path, workers: int) -> list[TrainJob | CellJob]:
    """Jobs for ``cells``: a first model and a first cell for each worker, then all other models, then all other cells.

    So the first result comes early, and hardly any cell waits to measure latency until a training beside it is done.
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
