"""Requests from untyped values, with the first mistake in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from bench.records.errors import InputError
from tasks.errors import TaskError
from tasks.paths import at_home
from tasks.request import TaskSpec

BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}  # by pydantic's names
Request = TypeVar("Request", bound=BaseModel)


def validated(kind: type[Request], values: Mapping[str, Any], shown: Callable[[str, Any], str]) -> Request:
    """A ``kind`` with these ``values``.

    shown: how the user wrote a field and its value, such as ``--limit 'x'``. Raises InputError for the first mistake.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        mistake = error.errors()[0]
    cause = mistake.get("ctx", {}).get("error")
    if isinstance(cause, (InputError, TaskError)):
        raise cause
    if not mistake["loc"]:  # fields that do not go together
        raise InputError(str(cause))
    key = str(mistake["loc"][0])
    raise InputError(f"{shown(key, values.get(key))}: {cause or f'expected {_expected(kind.model_fields[key])}'}")


def task_spec(values: Mapping[str, Any], shown: Callable[[str, Any], str]) -> TaskSpec:
    """The task that ``values`` ask for; whether there is such an adapter is not checked.

    Raises InputError, and TaskError for task files of lm-eval that cannot be read.
    """
    for key, value in values.items():
        if value in ("", []):
            raise InputError(f"{shown(key, value)}: expected {_expected(TaskSpec.model_fields[key])}")
    spec = validated(TaskSpec, values, shown)
    spec = spec.model_copy(update={"mirror": at_home(spec.mirror)})
    if spec.harness_tasks:
        from tasks.harness.files import check_files

        names = tuple(map(at_home, spec.harness_tasks))
        check_files(names)
        spec = spec.model_copy(update={"harness_tasks": names})
    return spec


def _expected(field: FieldInfo) -> str:
    """The values that ``field`` takes, in words."""
    if get_origin(field.annotation) is Literal:
        return f"one of {', '.join(get_args(field.annotation))}"
    entry = next(iter(get_args(field.annotation)), None)
    if get_origin(entry) is Literal:  # a tuple of these
        return f"some of {', '.join(get_args(entry))}"
    simple = {str: "text", bool: "true or false", float: "a number", int: "a whole number"}
    words = next((words for kind, words in simple.items() if field.annotation is kind), "text, or a list of texts")
    bounds = [
        f"{word} {getattr(rule, name):g}"
        for rule in field.metadata
        for name, word in BOUNDS.items()
        if hasattr(rule, name)
    ]
    return ", ".join([words, *bounds])
