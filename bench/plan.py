"""Turn a suite into cells, each with the key of all that can change its result."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import methods.heads
import methods.schedule
import methods.view
import tasks.answers
import tasks.train
from bench import arrivals, choice, quality, selection
from bench.errors import InputError
from bench.suite import MethodSpec, Suite
from methods import METHODS
from tasks.contract import TASKS, Task, TaskSpec
from tasks.digest import digest_of, digest_of_source

PROTOCOL = 3  # raise it when results of before and after must not be compared
LONGEST_NAME = 200  # bytes of a file's name; most systems take 255, endings included
SHARED = ("methods", "methods.registry", "methods.options", "methods.schedule", "methods.view")  # no method's own


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
        heads = methods.heads.HeadMap.of(model, spec.unit)
        removed = tuple(suite.removed(len(heads)))
        for seed in suite.seeds:
            fingerprints = task.fingerprints(seed)
            shared = {
                "protocol": PROTOCOL,
                "code": _shared_code(),
                "task": [spec.task, type(task).version, fingerprints],
                "seed": seed,
                "unit": spec.unit,
                "removed": removed,
                "calibration": suite.calibration,
                "generate": suite.generate,
                "device": device,
            }
            for method in suite.methods:
                key = digest_of({**shared, "method": _own(method, suite.training)})
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


def _own(spec: MethodSpec, training: float) -> list[Any]:
    """What of a key is the method's own."""
    method = METHODS[spec.name]
    own = [spec.name, spec.options, digest_of_source(*_modules_of(sys.modules[method.function.__module__]))]
    return [*own, training, digest_of_source(tasks.train)] if method.shape == "joint" else own


@cache
def _modules_of(module: ModuleType) -> tuple[ModuleType, ...]:
    """``module`` and what it imports of its own package, anywhere in its code, but for code that all methods share."""
    package = module.__name__.partition(".")[0]
    found = {module.__name__: module}
    waiting = [module]
    while waiting:
        for name in _imported(waiting.pop()):
            own = name.partition(".")[0] == package and name not in SHARED and not name.startswith("methods.heads")
            if own and name not in found and _is_module(name) and _has_source(name):
                found[name] = importlib.import_module(name)
                waiting.append(found[name])
    return tuple(found[name] for name in sorted(found))


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what it would lie in is no package: it is a function or a value there
        return False


def _has_source(name: str) -> bool:
    """Not so of a compiled module, nor of a package whose file is empty."""
    try:
        return bool(inspect.getsource(importlib.import_module(name)))
    except OSError:
        return False


def _imported(module: ModuleType) -> Iterator[str]:
    """Full names of what may be modules among the imports of ``module``."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = importlib.util.resolve_name("." * node.level, module.__package__) if node.level else ""
            name = ".".join(filter(None, (package, node.module)))
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names)


def _shared_code() -> str:
    """Digest of the code that every method's result goes through."""
    package = methods.heads
    heads = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    return digest_of_source(*heads, methods.schedule, methods.view, choice, selection, quality, arrivals, tasks.answers)
