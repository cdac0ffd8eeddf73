"""The cells of a suite, each with the key of everything that can change its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from unicodedata import normalize

from torch import nn

from bench.records.errors import InputError
from bench.records.protocol import PROTOCOL
from bench.records.storage.names import record_name
from bench.suites.keys import heads_part, method_part, shared_code
from bench.suites.parse import MethodSpec
from bench.suites.plugins import task_plugin_fault
from bench.suites.suite import Suite
from methods import METHODS
from methods.heads import HeadMap
from tasks.contract import TASKS, Task
from tasks.data.calibration import LEAST
from tasks.digest import digest_of
from tasks.request import CalibrationSource, TaskSpec


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
    calibration_from: CalibrationSource = "held-out"
    origin: str = ""  # digest of the data and of the model's own weights if it is not built in: the same for all seeds

    @property
    def name(self) -> str:
        """Path of its record below the folder of records, without the suffix."""
        return record_name(self.task.task, self.data, self.model, self.method.label, self.seed)

    @property
    def where(self) -> str:
        """Model, data and seed, for status messages."""
        return f"{self.model}, {self.data}, seed {self.seed}"


@cache
def open_task(spec: TaskSpec) -> Task:
    """The task of ``spec``; one per process, so that data is read and tokenized once."""
    adapter = TASKS[spec.task]
    with task_plugin_fault(spec.task, adapter.__module__):
        return adapter(spec)


def heads_of(task: Task, model: nn.Module) -> HeadMap:
    """The units of ``model`` that may be removed under ``task``.

    Raises InputError where none may be removed, and UnsupportedArchitecture where they cannot be found.
    """
    heads = HeadMap.of(model, task.spec.unit, task.spec.kinds)
    if not len(heads):
        raise InputError(f"{task.model_name}: no attention head is left in it, so there is nothing to remove")
    if not heads.removable:
        raise InputError(
            f"{task.model_name}: the {len(heads)} attention modules that have heads cannot run without any, and have "
            "one unit each, so there is nothing to remove"
        )
    return heads


def calibration_source(task: Task, size: int, wanted: CalibrationSource) -> CalibrationSource:
    """Where the calibration set of ``task`` comes from: ``train`` where nothing is held out, else as ``wanted``.

    Raises InputError if more examples are wanted than are held out; if fewer than ``LEAST`` are, all of them are used.
    """
    if not task.held_out or wanted == "train":
        return "train"
    if size > task.held_out >= LEAST:
        raise InputError(
            f"{task.spec.task}, {task.data_name}: {size} calibration examples, but {task.held_out} are held out of "
            "the training split: use fewer, or take them from what the model is trained on (--calibration-from train)"
        )
    return "held-out"


def plan(suite: Suite, device: str) -> list[Cell]:
    """All cells of ``suite``, task by task and seed by seed.

    Raises TaskError or UnsupportedArchitecture where a task, its data or its model cannot be used; InputError where
    two cells would share a record, a model that cannot generate should, or a plugin's adapter has an error.
    """
    cells = [cell for spec in suite.tasks for cell in _cells_of(spec, suite, device)]
    by_name: dict[str, Cell] = {}
    for cell in cells:
        if by_name.setdefault(normalize("NFC", cell.name).casefold(), cell) is not cell:  # on some disks, the same file
            raise InputError(
                f"two cells of this suite would share the record {cell.name}: rename one of the data sets or models, "
                "or run the tasks separately, each in its own folder"
            )
    return cells


def _cells_of(spec: TaskSpec, suite: Suite, device: str) -> Iterator[Cell]:
    task = open_task(spec)
    with task_plugin_fault(spec.task, type(task).__module__):
        model: Any = task.validate()
        data_name, model_name = task.data_name, task.model_name
        fingerprints = {seed: task.fingerprints(seed) for seed in suite.seeds}
        source = calibration_source(task, suite.calibration, suite.calibration_from)
    if suite.generate and not (hasattr(model, "can_generate") and model.can_generate()):
        raise InputError(f"{spec.task}: {type(model).__name__} generates no text, so there is nothing to time")
    heads = heads_of(task, model)
    removed = tuple(suite.removed(len(heads), heads.removable))
    model_name += " by query head" if spec.unit == "query" else ""
    model_name += f" in {' and '.join(heads.kinds)} attention" if heads.kinds else ""
    of_heads = heads_part(model, heads)
    for seed, fingerprint in fingerprints.items():
        shared = {
            "protocol": PROTOCOL,
            "code": shared_code(),
            "task": [type(task).version, fingerprint],
            "seeds": list(task.seeds(seed)),
            "heads": of_heads,
            "removed": removed,
            "calibration": [suite.calibration, source],
            "generate": suite.generate,
            "device": device,
        }
        for method in suite.methods:
            check_start(method, task)
            yield Cell(
                task=spec,
                data=data_name,
                model=model_name,
                method=method,
                seed=seed,
                removed=removed,
                calibration=suite.calibration,
                calibration_from=source,
                training=suite.training,
                device=device,
                key=digest_of({**shared, "method": method_part(method, suite.training)}),
                generate=suite.generate,
                origin=origin_of(fingerprint),
            )


def origin_of(fingerprint: Mapping[str, Any]) -> str:
    """The digest of data, and of a model's own weights, for ``Cell.origin``, from the fingerprints of a task.

    Fingerprints of another shape than those of the built-in tasks are taken as they are.
    """
    model = fingerprint.get("model")
    weights = model.get("weights") if isinstance(model, Mapping) else model
    return digest_of([fingerprint.get("data", dict(fingerprint)), weights])


def check_start(method: MethodSpec, task: Task) -> None:
    """Raise InputError where a method starts from the model before its training, and the task takes it as it is."""
    if METHODS[method.name].shape == "joint" and method.options.get("start") == "pretrained" and not task.trains:
        raise InputError(
            f"{method.label}: {task.model_name} is taken as it is, so there is no training to take the place of: add "
            "--finetune, or leave out start=pretrained"
        )
