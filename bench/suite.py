"""Suites: which tasks, methods, seeds and levels to run, from a TOML file or a command line."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.errors import InputError, unknown
from bench.plugins import load_plugins
from methods import METHODS, OptionError
from tasks.contract import TASKS, TaskSpec

FOLDER = Path(__file__).parent / "suites"


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

    def removed(self, units: int) -> list[int]:
        """Numbers of units removed at which quality is measured, ascending, of ``units`` in all."""
        if not self.levels:
            return list(range(units + 1))
        return sorted({count_at(level, units) for level in self.levels})


def count_at(level: float, units: int) -> int:
    """Number of units that is nearest to the share ``level`` of ``units``; halves go up."""
    return int(level * units + 0.5)


def load_suite(name: str) -> Suite:
    """The built-in suite ``name``, or the suite in the TOML file at that path. Raises InputError."""
    load_plugins()
    path = Path(name)
    if path.suffix != ".toml":
        path = FOLDER / f"{name}.toml"
        if not path.is_file():
            raise unknown("suite", name, [*built_in_suites(), "a path to a .toml file"])
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"suite {name}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"suite {name}: not valid TOML: {error}") from error
    return _suite(path.stem, content, f"suite {name}")


def built_in_suites() -> list[str]:
    """Names of the suites that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _suite(name: str, content: dict[str, Any], where: str) -> Suite:
    known = {"tasks", "methods", "seeds", "levels", "calibration"}
    for key in content:
        if key not in known:
            raise unknown(f"key in {where}:", key, known)
    tasks = content.get("tasks", [])
    if not tasks or not all(isinstance(entry, dict) for entry in tasks):
        raise InputError(f"{where}: expected at least one [[tasks]] table")
    calibration = content.get("calibration", 128)
    if not isinstance(calibration, int) or calibration < 1:
        raise InputError(f"{where}: calibration = {calibration!r}: expected a whole number of examples, at least 1")
    return Suite(
        name=name,
        tasks=tuple(_task(entry, where) for entry in tasks),
        methods=parse_methods(_comma(content.get("methods", "all"))),
        seeds=parse_seeds(_comma(content.get("seeds", 3))),
        levels=parse_levels(_comma(content.get("levels", "0.125,0.25,0.375,0.5,0.625,0.75,0.875"))),
        calibration=calibration,
    )


def _comma(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _task(entry: dict[str, Any], where: str) -> TaskSpec:
    kinds = {field.name: type(field.default) for field in dataclasses.fields(TaskSpec)} | {"task": str}
    for key, value in entry.items():
        if key not in kinds:
            raise unknown(f"key of a task in {where}:", key, kinds)
        if not isinstance(value, (list, str) if kinds[key] is tuple else kinds[key]):
            raise InputError(f"{where}: task key {key} = {value!r}: expected {kinds[key].__name__}")
    if "task" not in entry:
        raise InputError(f"{where}: a [[tasks]] table without task = NAME; there is {', '.join(sorted(TASKS))}")
    text = entry.get("text", ())
    columns = tuple(text.split(",")) if isinstance(text, str) else tuple(text)
    check_task(entry["task"])
    return TaskSpec(**{**entry, "text": columns})


def check_task(name: str) -> str:
    """``name`` if there is such a task adapter. Raises InputError, with the nearest name."""
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    return name


def parse_methods(text: str) -> tuple[MethodSpec, ...]:
    """``all``, or ``a,b:option=value,option=value,c``: methods with their options. Raises InputError."""
    if text == "all":
        return tuple(
            MethodSpec(name, method.configure({}))
            for name, method in sorted(METHODS.items(), key=lambda item: (item[0] != "none", item[0]))
        )
    given: list[tuple[str, dict[str, str]]] = []
    for part in text.split(","):
        if ":" not in part and "=" in part and given:  # one more option of the method before
            name, part = given[-1][0], f"{given[-1][0]}:{part}"
        else:
            name = part.partition(":")[0].strip()
            given.append((name, {}))
        if name not in METHODS:
            raise unknown("method", name, [*METHODS, "all"])
        option = part.partition(":")[2]
        if option:
            key, equals, value = option.partition("=")
            if not equals:
                raise InputError(f"method {name}: option {option!r}: expected option=value")
            given[-1][1][key.strip()] = value.strip()
        elif ":" in part:
            raise InputError(f"method {part!r}: expected option=value after the colon")
    specs: dict[str, MethodSpec] = {}
    for name, options in given:
        try:
            spec = MethodSpec(name, METHODS[name].configure(options))
        except OptionError as error:
            raise InputError(str(error)) from error
        specs[spec.label] = spec
    return tuple(specs.values())


def parse_seeds(text: str) -> tuple[int, ...]:
    """``3`` for the seeds 0, 1, 2; ``0,4,7`` for those. Raises InputError."""
    try:
        seeds = tuple(int(part) for part in text.split(","))
        seeds = tuple(range(seeds[0])) if "," not in text else seeds
    except ValueError:
        seeds = ()
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds {text!r}: expected a number of seeds (3) or different seeds (0,4,7), none below 0")
    return seeds


def parse_levels(text: str) -> tuple[float, ...]:
    """``all``, or shares removed such as ``0.25,50%``; both ends are always measured. Raises InputError."""
    if text == "all":
        return ()
    levels = {0.0, 1.0}
    for part in text.split(","):
        try:
            level = float(part.strip().removesuffix("%")) / (100 if part.strip().endswith("%") else 1)
        except ValueError:
            level = -1.0
        if not 0 <= level <= 1:
            raise InputError(
                f"level {part!r}: expected a share removed from 0 to 1, or a percentage such as 50%, or all"
            )
        levels.add(level)
    return tuple(sorted(levels))
