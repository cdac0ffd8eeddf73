"""A suite: which tasks, methods, seeds and levels to run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from bench.records.errors import InputError, unknown
from bench.records.protocol import count_at
from bench.suites.parse import MethodSpec, parse_levels, parse_methods, parse_seeds
from bench.suites.plugins import unregistered
from bench.suites.shares import training_share
from bench.suites.validate import task_spec
from tasks.contract import TASKS
from tasks.request import CalibrationSource, TaskSpec


def check_task(name: str) -> str:
    """``name`` if there is such a task adapter. Raises InputError with the nearest name."""
    if name not in TASKS:
        raise unregistered("task", name, TASKS)
    return name


def _text(value: Any) -> str:
    """A value of a suite file as it would be written on the command line."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _methods(value: Any) -> Any:
    return value if isinstance(value, tuple) else parse_methods(_text(value))


def _seeds(value: Any) -> Any:
    one = isinstance(value, list) and len(value) == 1  # [7] is the seed 7, not a number of seeds
    return value if isinstance(value, tuple) else parse_seeds(_text(value) + "," * one)


def _levels(value: Any) -> Any:
    return value if isinstance(value, tuple) else parse_levels(_text(value))


def _tasks(value: Any) -> Any:
    if isinstance(value, tuple):
        return value
    if not value or not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InputError("expected at least one [[tasks]] table")
    specs = tuple(map(_task, value))
    if twice := [spec.task for place, spec in enumerate(specs) if spec in specs[:place]]:
        raise InputError(f"the task {twice[0]} is listed twice, with the same data and model")
    return specs


def _task(entry: Mapping[str, Any]) -> TaskSpec:
    for key in entry:
        if key not in TaskSpec.model_fields:
            raise unknown("key of a task", key, TaskSpec.model_fields)
    if "trust_task_code" in entry:
        raise InputError("trust_task_code is for the command line: a suite file cannot trust code on its own")
    if "task" not in entry:
        raise InputError(f"a [[tasks]] table has no task = NAME; available: {', '.join(sorted(TASKS))}")
    spec = task_spec(entry, lambda key, value: f"task key {key} = {value!r}")
    if spec.mirror and not Path(spec.mirror).is_dir():
        raise InputError(f"mirror {spec.mirror}: no such folder")
    check_task(spec.task)
    return spec


class Suite(BaseModel):
    """What to run. Each field but the name is a key of a suite file."""

    model_config = ConfigDict(frozen=True, strict=True)

    name: str
    tasks: Annotated[tuple[TaskSpec, ...], BeforeValidator(_tasks)] = Field(description="[[tasks]] tables, one or more")
    methods: Annotated[tuple[MethodSpec, ...], BeforeValidator(_methods)] = Field(
        default="all", validate_default=True, description="all, or methods with their options"
    )
    seeds: Annotated[tuple[int, ...], BeforeValidator(_seeds)] = Field(
        default=(0, 1, 2), description="a number of seeds, or a list of seeds"
    )
    levels: Annotated[tuple[float, ...], BeforeValidator(_levels)] = Field(
        default=tuple(step / 8 for step in range(9)),
        description="shares of units removed, 0 to 1, at which quality is measured; both ends always are. Empty (in a "
        "file: all) for after every single unit",
    )
    calibration: int = Field(128, ge=1, description="examples that a method may score on")
    calibration_from: CalibrationSource = Field(
        "held-out",
        description="held-out: training examples that the suite does not train the model on, where it trains one; "
        "train: those it does",
    )
    training: Annotated[float, AfterValidator(training_share)] = Field(
        1.0, description="share of the task's own training that a joint method takes at each level"
    )
    generate: bool = Field(False, description="time generation too, and all speed at these levels")

    def removed(self, units: int, removable: int | None = None) -> list[int]:
        """Numbers of units removed at which quality is measured, ascending, for a model of ``units`` units.

        removable: how many of them can go, all by default: no number is larger.
        """
        most = units if removable is None else removable
        if not self.levels:
            return list(range(most + 1))
        return sorted({min(count_at(level, units), most) for level in self.levels})
