"""Suites from TOML files, built in or anyone's own."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

from bench.cli.flag_types import LEAST_TRAINING
from bench.records.errors import InputError, unknown
from bench.suites.parse import LISTS, Suite, check_own, check_task, parse_levels, parse_list, parse_methods, parse_seeds
from bench.suites.plugins import load_plugins
from tasks.contract import TASKS, TaskSpec

FOLDER = Path(__file__).parent
EXPECTED = {
    str: "text",
    bool: "true or false",
    int: "a whole number, at least 0",
    tuple: "text, or a list of texts",
}


def load_suite(name: str) -> Suite:
    """The built-in suite ``name``, or the suite in the TOML file at that path. Raises InputError."""
    load_plugins()
    path = Path(name)
    if path.suffix != ".toml":
        path = FOLDER / f"{name}.toml"
        if Path(name).exists():
            raise InputError(f"suite {name}: expected the name of a built-in suite, or a path that ends in .toml")
        if not path.is_file():
            raise InputError(f"{unknown('suite', name, built_in_suites())}; your own is a path that ends in .toml")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"suite {name}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"suite {name}: not valid TOML: {error}") from error
    return _suite(path.stem, content, f"suite {name}")


def built_in_suites() -> list[str]:
    """Names of the suites that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _suite(name: str, content: dict[str, Any], where: str) -> Suite:
    known = {"tasks", "methods", "seeds", "levels", "calibration", "training", "generate"}
    for key in content:
        if key not in known:
            raise unknown(f"key in {where}:", key, known)
    tasks = content.get("tasks", [])
    if not tasks or not isinstance(tasks, list) or not all(isinstance(entry, dict) for entry in tasks):
        raise InputError(f"{where}: expected at least one [[tasks]] table")
    calibration = content.get("calibration", 128)
    if type(calibration) is not int or calibration < 1:
        raise InputError(f"{where}: calibration = {calibration!r}: expected a whole number of examples, at least 1")
    training = content.get("training", 1.0)
    if type(training) not in (int, float) or not LEAST_TRAINING <= training <= 1:
        raise InputError(
            f"{where}: training = {training!r}: expected a share of the task's own training, from "
            f"{LEAST_TRAINING:.6f}, less being no step at all, to 1"
        )
    generate = content.get("generate", False)
    if type(generate) is not bool:
        raise InputError(f"{where}: generate = {generate!r}: expected true or false")
    try:
        specs = tuple(_task(entry, where) for entry in tasks)
        if twice := [spec.task for place, spec in enumerate(specs) if spec in specs[:place]]:
            raise InputError(f"the task {twice[0]} is listed twice, with the same data and model")
        return Suite(
            name=name,
            tasks=specs,
            methods=parse_methods(_text(content, "methods", "all")),
            seeds=parse_seeds(_text(content, "seeds", "3")),
            levels=parse_levels(_text(content, "levels", "0.125,0.25,0.375,0.5,0.625,0.75,0.875")),
            calibration=calibration,
            training=float(training),
            generate=generate,
        )
    except InputError as error:
        raise InputError(str(error) if where in str(error) else f"{where}: {error}") from error


def _text(content: dict[str, Any], key: str, default: str) -> str:
    """A value of a suite file as a command line would have it: ``[7]`` is the seed 7, not a number of seeds."""
    value = content.get(key, default)
    if isinstance(value, list):
        return ",".join(map(str, value)) + ("," if key == "seeds" and len(value) == 1 else "")
    return str(value)


def _task(entry: dict[str, Any], where: str) -> TaskSpec:
    kinds: dict[str, type] = {field.name: type(field.default) for field in dataclasses.fields(TaskSpec)} | {"task": str}
    for key, value in entry.items():
        if key not in kinds:
            raise unknown(f"key of a task in {where}:", key, kinds)
        if kinds[key] is tuple:
            right = isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))
        else:
            right = type(value) is kinds[key] and value != "" and not (isinstance(value, int) and value < 0)
        if not right:
            raise InputError(f"{where}: task key {key} = {value!r}: expected {EXPECTED[kinds[key]]}")
    if "task" not in entry:
        raise InputError(f"{where}: a [[tasks]] table without task = NAME; there is {', '.join(sorted(TASKS))}")
    if "mirror" in entry and not Path(entry["mirror"]).is_dir():
        raise InputError(f"{where}: mirror {entry['mirror']}: no such folder")
    check_task(entry["task"])
    lists = {
        name: parse_list(entry[name], name, part) if isinstance(entry[name], str) else tuple(entry[name])
        for name, part in LISTS.items()
        if name in entry
    }
    return check_own(TaskSpec(**{**entry, **lists}))
