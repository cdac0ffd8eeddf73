"""Turn a suite into cells, each with the key of all that can change its result."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from functools import cache

import methods.heads
import methods.schedule
import methods.view
from bench import quality, selection
from bench.errors import InputError
from bench.suite import MethodSpec, Suite
from methods import METHODS
from tasks.contract import TASKS, Task, TaskSpec
from tasks.digest import digest_of, digest_of_source

PROTOCOL = 1  # raise it when results of before and after must not be compared


@dataclass(frozen=True)
class Cell:
    """One (task, model, method, seed): the unit of work, of storage and of resuming."""

    task: TaskSpec
    data: str
    model: str
    method: MethodSpec
    seed: int
    removed: tuple[int, ...]  # numbers of units removed at which quality is measured
    calibration: int
    device: str
    key: str

    @property
    def name(self) -> str:
        """Where its record lies, below the folder of records, without an ending."""
        parts = (f"{self.task.task}.{self.data}.{self.model}", self.method.label, f"seed{self.seed}")
        return "/".join(re.sub(r"[^\w.=+-]", "_", part) for part in parts)


@cache
def open_task(spec: TaskSpec) -> Task:
    """The task of ``spec``; one a process, so that data is read and tokenized once."""
    return TASKS[spec.task](spec)


def plan(suite: Suite, device: str) -> list[Cell]:
    """All cells of ``suite``, task by task and seed by seed.

    Raises TaskError or UnsupportedArchitecture where a task, its data or its model cannot be used, InputError where
    two cells would have one record.
    """
    cells: list[Cell] = []
    for spec in suite.tasks:
        task = open_task(spec)
        heads = methods.heads.HeadMap.of(task.validate())
        removed = tuple(suite.removed(len(heads)))
        for seed in suite.seeds:
            shared = {
                "protocol": PROTOCOL,
                "code": _shared_code(),
                "task": [spec.task, type(task).version, task.fingerprints(seed)],
                "seed": seed,
                "removed": removed,
                "calibration": suite.calibration,
                "device": device,
            }
            for method in suite.methods:
                own = digest_of_source(inspect.getmodule(METHODS[method.name].function))
                key = digest_of({**shared, "method": [method.name, method.options, own]})
                cells.append(
                    Cell(spec, task.data_name, task.model_name, method, seed, removed, suite.calibration, device, key)
                )
    places: dict[str, Cell] = {}
    for cell in cells:
        other = places.setdefault(cell.name, cell)
        if other is not cell:
            raise InputError(
                f"two cells of this suite have one place for their records, {cell.name}: give data sets and models "
                "of other content other file names, or run the tasks apart"
            )
    return cells


def _shared_code() -> str:
    """Digest of the code that every method's result goes through."""
    package = methods.heads
    heads = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    return digest_of_source(*heads, methods.schedule, methods.view, selection, quality)
