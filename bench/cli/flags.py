"""Flags that several verbs share. Must not import torch."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from bench.cli import flag_types as types
from bench.cli.requests import DEFAULT_OUT, DEFAULT_SUITE
from tasks.request import CalibrationSource, TaskSpec, flag_of

MINI = Path(DEFAULT_OUT.format(suite=DEFAULT_SUITE))
DEVICE: dict[str, Any] = {
    "choices": ("auto", "cpu", "cuda"),
    "default": "auto",
    "help": "where models run (default: a GPU if there is one)",
}
TRAINING: dict[str, Any] = {"type": types.training, "metavar": "SHARE"}
TRAINING_HELP = (
    "training steps per level for methods that train, as a share of the steps used to train the task's own model; at "
    "least one step"
)
CALIBRATION_FROM: dict[str, Any] = {
    "choices": get_args(CalibrationSource),
}
CALIBRATION_FROM_HELP = (
    "held-out: score on examples that the model is not trained on; train: on examples that it is trained on (for a "
    "model that is not trained here, examples are always from the training split)"
)


def add_verb(
    parsers, name: str, summary: str, function: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """The parser of a verb that calls ``function``."""
    parser = parsers.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    parser.set_defaults(verb=function, parser=parser)
    return parser


def add_folder(parser: argparse.ArgumentParser, meaning: str) -> None:
    """The folder of a run, which need not be given."""
    parser.add_argument("folder", nargs="?", type=types.path, default=MINI, help=f"{meaning} (default: {MINI})")


def add_suite(parser: argparse.ArgumentParser) -> None:
    """What a run consists of, and where its records go."""
    add = parser.add_argument
    add(
        "--suite",
        type=types.filled,
        metavar="NAME|FILE",
        help=f"built-in suite or TOML file (default: {DEFAULT_SUITE})",
    )
    add("--methods", metavar="all|A,B:OPTION=VALUE", help="methods to run, with their options (default: the suite's)")
    add("--tasks", metavar="A,B", help="only these tasks of the suite")
    seeds = "number of seeds, or the seeds themselves; '7,' is seed 7 alone (default: the suite's)"
    add("--seeds", metavar="N|A,B,C", help=seeds)
    add("--levels", metavar="all|A,B", help="shares of heads removed at which quality is measured, as 0.5 or 50%%")
    default = DEFAULT_OUT.format(suite="NAME-OF-SUITE")
    add("--out", type=types.path, metavar="DIR", help=f"where records go (default: {default}, or runs/own-TASK)")
    of_suite = "the suite's; held-out where it says nothing"
    add("--calibration-from", **CALIBRATION_FROM, help=f"{CALIBRATION_FROM_HELP} (default: {of_suite})")
    add("--training", **TRAINING, help=f"{TRAINING_HELP} (default: the suite's; 1 for your own task without --suite)")
    add("--generate", action="store_true", help="time the generation of text too, and time everything at --levels")
    add("--device", **DEVICE)


def add_own(parser: argparse.ArgumentParser, title: str) -> None:
    """A flag for each field of a task's request."""
    group = parser.add_argument_group(title)
    for name, field in TaskSpec.model_fields.items():
        group.add_argument(flag_of(name), help=field.description, **_kind(field))


def _kind(field: FieldInfo) -> dict[str, Any]:
    """How argparse reads the flag of ``field``."""
    if field.annotation is bool:
        return {"action": "store_true"}
    if get_origin(field.annotation) is Literal:
        return {"choices": get_args(field.annotation)}
    if get_origin(field.annotation) is tuple:
        return {"metavar": f"{field.title}[,{field.title}]"}
    numbers: dict[Any, Callable[[str], float]] = {int: types.positive, float: types.real}
    return {"type": numbers.get(field.annotation) or types.filled, "metavar": field.title}
