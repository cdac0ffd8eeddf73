"""From a suite to its cells, each with the key of all that can change its result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.records.errors import InputError
from bench.records.protocol import PROTOCOL
from bench.suites.keys import method_part, shared_code
from bench.suites.parse import MethodSpec, Suite
from methods.heads import HeadMap
from tasks.contract import TASKS, Task, TaskSpec
from tasks.digest import digest_of

LONGEST_NAME = 200  # bytes in a file name; most file systems allow 255, extensions included


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
    training: float
    device: str
    key: str
    generate: bool = False
    origin: str = ""  # digest of the data and, where it is taken as it is or trained on, the model: one for all seeds

    @property
    def name(self) -> str:
        """Where its record lies, below the folder of records, without an ending."""
        parts = (f"{self.task.task}.{self.data}.{self.model}", self.method.label, f"seed{self.seed}")
        return "/".join(_file_name(part) for part in parts)

    @property
    def where(self) -> str:
        """What the method is run on, for people."""
        return f"{self.model}, {self.data}, seed {self.seed}"


@cache
def open_task(spec: TaskSpec) -> Task:
    """The task of ``spec``; one a process, so that data is read and tokenized once."""
    return TASKS[spec.task](spec)


def plan(suite: Suite, device: str) -> list[Cell]:
    """All cells of ``suite``, task by task and seed by seed.

    Raises TaskError or UnsupportedArchitecture where a task, its data or its model cannot be used, InputError where
    two cells would have one record, or where a model is to generate that cannot.
    """
    cells: list[Cell] = []
    for spec in suite.tasks:
        task = open_task(spec)
        model: Any = task.validate()
        if suite.generate and not (hasattr(model, "can_generate") and model.can_generate()):
            raise InputError(f"{spec.task}: {type(model).__name__} generates no text, so there is nothing to time")
        heads = HeadMap.of(model, spec.unit)
        removed = tuple(suite.removed(len(heads)))
        for seed in suite.seeds:
            fingerprints = task.fingerprints(seed)
            shared = {
                "protocol": PROTOCOL,
                "code": shared_code(),
                "task": [spec.task, type(task).version, fingerprints],
                "seed": seed,
                "unit": spec.unit,
                "removed": removed,
                "calibration": suite.calibration,
                "generate": suite.generate,
                "device": device,
            }
            for method in suite.methods:
                key = digest_of({**shared, "method": method_part(method, suite.training)})
                cells.append(
                    Cell(
                        task=spec,
                        data=task.data_name,
                        model=task.model_name + (" by query head" if spec.unit == "query" else ""),
                        method=method,
                        seed=seed,
                        removed=removed,
                        calibration=suite.calibration,
                        training=suite.training,
                        device=device,
                        key=key,
                        generate=suite.generate,
                        origin=digest_of([fingerprints["data"], fingerprints["model"].get("weights")]),
                    )
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


def _file_name(text: str) -> str:
    """``text`` as a name that any file system takes."""
    name = re.sub(r"[^\w.=+-]", "_", text)
    return name if len(name.encode()) <= LONGEST_NAME else f"{name[:40]}-{digest_of(text)[:16]}"
