"""Suites: which tasks, methods, seeds and levels to run, and how a command line or a suite file writes them."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import Any

from bench.cli.flag_types import fraction
from bench.records.errors import InputError, unknown
from bench.records.protocol import count_at
from methods import METHODS, OptionError
from methods.heads.finding.head_map import UNITS
from tasks.contract import TASKS, TaskSpec

LISTS = {"text": "COLUMN", "harness_tasks": "TASK"}  # what of a task is a list, and of what
MOST_SEEDS = 1000  # above it a seed was meant, not a number of seeds


@dataclass(frozen=True)
class MethodSpec:
    """A method with every one of its options."""

    name: str
    options: dict[str, Any] = field(hash=False)

    @property
    def label(self) -> str:
        """The name with the options that differ from its defaults."""
        return METHODS[self.name].label(self.options)


@dataclass(frozen=True)
class Suite:
    """What to run. ``levels`` are shares of units removed, 0 to 1; empty means after every single unit."""

    name: str
    tasks: tuple[TaskSpec, ...]
    methods: tuple[MethodSpec, ...]
    seeds: tuple[int, ...]
    levels: tuple[float, ...]
    calibration: int  # examples a method may score on
    training: float  # share of the task's own training that a joint method takes for one budget
    generate: bool = False  # time generation too, and all speed at these levels

    def removed(self, units: int) -> list[int]:
        """Numbers of units removed at which quality is measured, ascending, of ``units`` in all."""
        if not self.levels:
            return list(range(units + 1))
        return sorted({count_at(level, units) for level in self.levels})


def check_task(name: str) -> str:
    """``name`` if there is such a task adapter. Raises InputError, with the nearest name."""
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    return name


def check_own(spec: TaskSpec) -> TaskSpec:
    """``spec`` if its parts go together. Raises InputError."""
    if (spec.text or spec.label) and not spec.data:
        raise InputError("columns for the text or the label are given without data: add --data (data in a suite file)")
    if spec.unit not in UNITS:
        raise InputError(f"unit {spec.unit!r}: expected one of {', '.join(UNITS)}")
    return spec


def parse_list(text: str, name: str, part: str) -> tuple[str, ...]:
    """``a`` or ``a,b``, a value of ``name``; a ``part`` with a comma stands in double quotes. Raises InputError."""
    parts = next(csv.reader([text], skipinitialspace=True), [])
    if not parts or not all(parts):
        raise InputError(f"--{name.replace('_', '-')} {text!r}: expected {part}, or {part},{part}")
    return tuple(parts)


def parse_methods(text: str) -> tuple[MethodSpec, ...]:
    """``all``, or ``a,b:option=value,option=value,c``: methods with their options. Raises InputError."""
    given: list[tuple[str, dict[str, str]]] = []
    named = ""  # by the part before
    for part in text.split(","):
        name, colon, option = (piece.strip() for piece in part.partition(":"))
        more = not colon and "=" in part and bool(given)  # one more option of what was named
        if more:
            name, colon, option = named, ":", part.strip()
        named = name
        if name == "all" and colon:
            raise InputError("all takes no options: name the method that they are for")
        if not more:
            given += [(each, {}) for each in _names(name, text)]
        if colon:
            key, equals, value = (piece.strip() for piece in option.partition("="))
            if not (key and equals and value):
                raise InputError(f"method {name}: option {option!r}: expected OPTION=VALUE")
            if key in given[-1][1]:
                raise InputError(f"method {name}: option {key!r} is given twice")
            given[-1][1][key] = value
    specs: dict[str, MethodSpec] = {}
    for name, options in given:
        try:
            spec = MethodSpec(name, METHODS[name].configure(options))
        except OptionError as error:
            raise InputError(str(error) if str(error).startswith("method") else f"method {name}: {error}") from error
        specs[spec.label] = spec
    return tuple(specs.values())


def _names(name: str, text: str) -> list[str]:
    """The methods that ``name``, a part of ``text``, stands for. Raises InputError."""
    if name == "all":
        return sorted(METHODS, key=lambda name: (name != "none", name))
    if not name:
        raise InputError(f"--methods {text!r}: expected METHOD,METHOD:OPTION=VALUE or all, found nothing at a comma")
    if name not in METHODS:
        raise unknown("method", name, [*METHODS, "all"])
    return [name]


def parse_seeds(text: str) -> tuple[int, ...]:
    """``3`` for the seeds 0, 1, 2; ``0,4,7`` for those; ``7,`` for that one. Raises InputError."""
    parts = text.split(",")
    try:
        seeds = [int(part) for part in (parts[:-1] if len(parts) == 2 and not parts[1].strip() else parts)]
    except ValueError:
        seeds = []
    if len(parts) == 1 and seeds:
        seeds = list(range(seeds[0])) if seeds[0] <= MOST_SEEDS else []
    if not seeds or min(seeds) < 0 or max(seeds) >= 2**32 or len(set(seeds)) < len(seeds):
        raise InputError(
            f"seeds {text!r}: expected a number of seeds (3, at most {MOST_SEEDS}), "
            "different seeds from 0 to 2^32 - 1 (0,4,7), or one of them (7,)"
        )
    return tuple(seeds)


def parse_levels(text: str) -> tuple[float, ...]:
    """``all``, or shares removed such as ``0.25,50%``; both ends are always measured. Raises InputError."""
    if text == "all":
        return ()
    levels = {0.0, 1.0}
    for part in text.split(","):
        level = fraction(part.strip())
        if not 0 <= level <= 1:
            raise InputError(
                f"level {part!r}: expected a share removed from 0 to 1, or a percentage such as 50%, or all"
            )
        levels.add(level)
    return tuple(sorted(levels))
