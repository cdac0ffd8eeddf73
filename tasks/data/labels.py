"""Labels in data sets: text, whole numbers, or missing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from tasks.data.splits import Row
from tasks.errors import TaskError

NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?")
DECIMAL = re.compile(r"[-+]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][-+]?[0-9]+)?")  # however it is written
NO_LABEL = re.compile(r"(-1(\.0+)?)?")


def label_of(value: Any, names: list[str], where: str) -> str | int | None:
    """A label as text or whole number, or its name if there are ``names`` of numbers; None if it is missing.

    Truth values are the texts ``True`` and ``False``, as libraries write them to CSV. Raises TaskError, which begins
    with ``where``, for what is no label.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and not is_unicode(value):
        raise TaskError(f"{where}: label {short(value)} is not valid Unicode")
    if isinstance(value, (str, int, float)) and NO_LABEL.fullmatch(str(value).strip()):
        return None
    if isinstance(value, str):
        return value.strip()
    number = _whole(value, where)
    if names and not 0 <= number < len(names):
        raise TaskError(f"{where}: label {number} is not one of the {len(names)} classes of this column")
    return names[number] if names else number


def _whole(value: Any, where: str) -> int:
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise _no_class(value, where)


def _no_class(value: Any, where: str) -> TaskError:
    return TaskError(f"{where}: label {short(value)} is not a class; expected text or a whole number")


def as_numbers(
    rows: dict[str, list[Row]], places: dict[str | int, str]
) -> tuple[dict[str, list[Row]], dict[str | int, str]]:
    """``rows`` and ``places`` with numeric labels if every label is a number written as text, as in CSV.

    places: file and line where each label first stands. Raises TaskError for a number that is not whole.
    """
    texts = {label for part in rows.values() for _, label in part if isinstance(label, str)}
    if not all(NUMBER.fullmatch(label) for label in texts):
        if all(DECIMAL.fullmatch(label) for label in texts):
            for label in sorted(texts):
                if not float(label.replace(",", ".")).is_integer():
                    raise _no_class(label, places[label])
        return rows, places
    number: dict[str | int, int] = {label: _whole(float(label), places[label]) for label in sorted(texts)}
    found = {split: [(row, number.get(label, label)) for row, label in part] for split, part in rows.items()}
    return found, {number.get(label, label): where for label, where in reversed(places.items())}


def as_names(rows: list[Row], places: dict[str | int, str], names: Sequence[str]) -> list[Row]:
    """``rows`` with the name for each label if these are numbers, also written as text, that count ``names`` from 0.

    places: file and line where each label first stands; receives those of the names. Raises TaskError for a number that
    counts none of them. Where names are numbers too, labels stand for these; where some labels are no numbers, nothing
    is changed.
    """
    labels = {label for _, label in rows}
    if any(map(NUMBER.fullmatch, names)):
        return [(texts, str(label) if str(label) in names else label) for texts, label in rows]
    if any(NUMBER.fullmatch(str(each)) is None for each in labels):
        return rows
    name: dict[str | int, str] = {}
    for label in sorted(labels, key=str):
        place = _whole(float(label), places[label])
        if not 0 <= place < len(names):
            raise TaskError(
                f"{places[label]}: label {label} is none of the numbers of {', '.join(names)}, 0 to {len(names) - 1}"
            )
        name[label] = names[place]
        places.setdefault(names[place], places[label])
    return [(texts, name[label]) for texts, label in rows]


def is_unicode(text: str) -> bool:
    """Whether ``text`` has no lone surrogate, which JSON allows and tokenizers do not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def short(value: Any) -> str:
    """``value`` for an error message."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:59] + "…"
