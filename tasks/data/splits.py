"""Three disjoint splits of labelled rows, whichever splits the data set has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks.data.dataset import SPLITS, Dataset, Example
from tasks.errors import TaskError

FEW = 20  # classes that even a small data set may have
Row = tuple[tuple[str, ...], str | int]  # texts and label, as in the file


class UnknownLabel(TaskError):
    """A label is not one of the classes that a task has."""


def disjoint(
    name: str,
    rows: dict[str, list[Row]],
    labels: Sequence[str],
    where: str = "",
    *,
    places: Mapping[str | int, str] | None = None,
    only_train: bool = False,
) -> Dataset:
    """Three disjoint splits of ``rows``, given under ``train``, ``validation``, ``test`` or, undivided, ``all``.

    Undivided rows, and those of a data set with only a training split, are divided 80:10:10. Without a test split the
    validation split is used as the test split (as with GLUE); without a validation split a tenth of the training rows
    is. A digest of its texts alone decides where a row goes. Test examples are removed from train and validation, and
    validation examples from train; the remarks say how many, and how many of the test split have the texts of another,
    which all count. ``labels``: names of the classes in order, if known. ``places``: file and line where each label
    first stands. With ``only_train`` nothing is divided, and the other splits may be empty.

    Raises UnknownLabel for a label that is not in ``labels``, and TaskError, starting with ``where``, for no rows, an
    empty split, nearly as many classes as rows or, unless ``labels`` has one class, fewer than two classes.
    """
    where = where or name
    rows = {split: part for split, part in rows.items() if part}
    if not rows:
        raise TaskError(f"{where}: no row with {'text' if labels and len(labels) == 1 else 'a label'}")
    remarks: list[str] = []
    if only_train:
        rows["train"] = rows.pop("all", []) + rows.get("train", [])
    else:
        if not rows.keys() & {"all", "train"}:
            raise TaskError(f"{where}: no training split, only {' and '.join(rows)}")
        rows, remarks = _divided(rows)
    later: set[tuple[str, ...]] = set()
    for split in reversed(SPLITS):
        given = rows.get(split, [])
        rows[split] = [row for row in given if row[0] not in later]
        later |= {texts for texts, _ in rows[split]}
        if dropped := len(given) - len(rows[split]):
            remarks.append(f"{dropped} {'row' if dropped == 1 else 'rows'} of {split} dropped: in a later split too")
        if not rows[split] and not (only_train and split != "train"):
            why = "all its texts are in a later split too" if given else "too few different texts, or no file for it"
            raise TaskError(
                f"{where}: the {split} split is empty ({why}): give more rows, or files named {', '.join(SPLITS)}"
            )
    remarks += _repeated(rows["test"])
    index = _classes({label for split in SPLITS for _, label in rows[split]}, labels, where, places or {})
    number = sum(map(len, rows.values()))
    if not labels and FEW < len(index) > number / 2:
        raise TaskError(f"{where}: {len(index)} different labels in {number} rows: are they classes?")
    names = tuple(labels) if labels else tuple(str(label) for label in index)
    examples = {split: tuple(Example(texts, index[label]) for texts, label in part) for split, part in rows.items()}
    numbered = bool(labels) and any(isinstance(label, int) for label in index)
    data = Dataset(name, names, *(examples[split] for split in SPLITS), remarks=tuple(remarks), numbered=numbered)
    if len(labels) != 1:
        check_classes(data, where)
    return data


def check_classes(data: Dataset, where: str) -> None:
    """Raise TaskError, starting with ``where``, if the training or test split of ``data`` has one class only."""
    for split in ("train", "test"):
        found = {example.label for example in getattr(data, split)}
        if len(found) < 2:
            only = data.labels[found.pop()]
            raise TaskError(f"{where}: the {split} split has one class only ({only!r}); at least two are needed")


def _repeated(rows: Sequence[Row]) -> list[str]:
    """How many rows of the test split repeat the texts of one before, and how many texts have several labels."""
    labels: dict[tuple[str, ...], set[str | int]] = {}
    for texts, label in rows:
        labels.setdefault(texts, set()).add(label)
    if not (number := len(rows) - len(labels)):
        return []
    both = sum(len(each) > 1 for each in labels.values())
    unlike = f", and {both} {'text has' if both == 1 else 'texts have'} several labels" if both else ""
    return [f"{number} of {len(rows)} rows of test repeat texts of others{unlike}"]


def _divided(rows: dict[str, list[Row]]) -> tuple[dict[str, list[Row]], list[str]]:
    """``rows`` by split, for those of the three splits that have any, and remarks on how they were divided."""
    rows = dict(rows)
    remarks: list[str] = []
    if undivided := rows.pop("all", []) or (rows.pop("train") if rows.keys() == {"train"} else []):
        bounds = {"train": (0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 2)}
        parts = {
            split: [row for row in undivided if low <= _position(row) < high] for split, (low, high) in bounds.items()
        }
        return parts, ["divided 80:10:10 into train, validation and test"]
    if "test" not in rows and "validation" in rows:
        rows["test"] = rows.pop("validation")
        remarks.append("no test split: validation is used as test")
    if "validation" not in rows:
        remarks.append("no validation split: a tenth of train is used")
        train = rows.get("train", [])
        rows["validation"] = [row for row in train if _position(row) >= 0.9]
        rows["train"] = [row for row in train if _position(row) < 0.9]
    return rows, remarks


def limited(data: Dataset, limit: int) -> Dataset:
    """At most ``limit`` examples of each split, chosen by a digest of their texts.

    Raises TaskError if they are of one class only, and the data set is not.
    """
    chosen: dict[str, Any] = {
        split: tuple(sorted(getattr(data, split), key=lambda example: _position((example.texts, "")))[:limit])
        for split in SPLITS
    }
    for split in ("train", "test"):
        if len(data.labels) > 1 and len({example.label for example in chosen[split]}) < 2:
            raise TaskError(f"--limit {limit}: leaves one class only in the {split} split of {data.name}: raise it")
    return replace(data, **chosen)


def _position(row: Row) -> float:
    """A number in [0, 1) that depends only on the texts of ``row``."""
    digest = hashlib.sha256("\x1f".join(row[0]).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _classes(
    values: set[str | int], labels: Sequence[str], where: str, places: Mapping[str | int, str]
) -> dict[str | int, int]:
    """Class index of each label in the data. Raises UnknownLabel for one that is not in ``labels``."""
    if len({type(value) for value in values}) > 1:
        text, number = (min((v for v in values if isinstance(v, kind)), key=str) for kind in (str, int))
        lines = [places[value].removeprefix(f"{where}: ") for value in (text, number) if value in places]
        raise TaskError(
            f"{where}: labels are text in some rows and numbers in others: {text!r} and {number}"
            + (f" ({', '.join(lines)})" if lines else "")
        )
    ordered = sorted(values)  # type: ignore[type-var]
    if not labels:
        return {value: position for position, value in enumerate(ordered)}
    if len(ordered) == 2 < len(labels) and isinstance(ordered[0], int):  # as likely of two classes as of these
        numbers = ", ".join(map(str, range(len(labels))))
        raise UnknownLabel(f"{where}: all labels are {ordered[0]} or {ordered[1]}; {', '.join(labels)} are {numbers}")
    index: dict[str | int, int] = {}
    for value in ordered:
        position = value if isinstance(value, int) else index_of(value, labels)
        if position is None or not 0 <= position < len(labels):
            raise UnknownLabel(f"{places.get(value, where)}: label {value!r} is not one of {', '.join(labels)}")
        index[value] = position
    return index


def index_of(label: str, names: Sequence[str]) -> int | None:
    """Index of ``label`` in ``names``, ignoring case if that is not ambiguous; None if it is not there."""
    if label in names:
        return names.index(label)
    found = [index for index, name in enumerate(names) if name.lower() == label.strip().lower()]
    return found[0] if len(found) == 1 else None
