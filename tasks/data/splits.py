"""Make three disjoint splits of labelled rows, whatever the data set came with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tasks.data.dataset import SPLITS, Dataset, Example
from tasks.errors import TaskError

Row = tuple[tuple[str, ...], str | int]  # texts and label, as in the file


def disjoint(name: str, rows: dict[str, list[Row]], labels: Sequence[str], where: str = "") -> Dataset:
    """Three disjoint splits of ``rows``, given under ``train``, ``validation``, ``test`` or, undivided, ``all``.

    Undivided rows go 80:10:10, and so do those of a data set with nothing but a training split. Without a test split
    the validation split is the test split (as with GLUE); without a validation split a tenth of the training rows
    becomes it. Which rows is fixed by a digest of their texts alone. Training and validation rows whose texts stand in
    a later split are dropped. ``labels``: names of the classes in order, where known. Raises TaskError, starting with
    ``where``, for no rows, a split left empty or, unless ``labels`` is of one class, fewer than two of them.
    """
    where = where or name
    rows = {split: part for split, part in rows.items() if part}
    if not rows:
        raise TaskError(f"{where}: no row with a label")
    rows = _divided(rows)
    later: set[tuple[str, ...]] = set()
    for split in reversed(SPLITS):
        given = rows.get(split, [])
        rows[split] = [row for row in given if row[0] not in later]
        later |= {texts for texts, _ in rows[split]}
        if not rows[split]:
            why = "all its texts stand in a later split too" if given else "too few rows, or no file for it"
            raise TaskError(
                f"{where}: the {split} split is empty ({why}): give more rows, or files named {', '.join(SPLITS)}"
            )
    index = _classes([label for split in SPLITS for _, label in rows[split]], labels, where)
    names = tuple(labels) if labels else tuple(str(label) for label in index)
    examples = {split: tuple(Example(texts, index[label]) for texts, label in part) for split, part in rows.items()}
    for split in ("train", "test"):
        if len(labels) != 1 and len({example.label for example in examples[split]}) < 2:
            only = names[examples[split][0].label]
            raise TaskError(f"{where}: the {split} split has one class only ({only!r}); at least two are needed")
    return Dataset(name, names, *(examples[split] for split in SPLITS))


def _divided(rows: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """``rows`` under the three splits, as far as there are rows for each."""
    rows = dict(rows)
    if undivided := rows.pop("all", []) or (rows.pop("train") if rows.keys() == {"train"} else []):
        bounds = {"train": (0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 2)}
        return {split: [row for row in undivided if low <= _place(row) < high] for split, (low, high) in bounds.items()}
    if "test" not in rows and "validation" in rows:
        rows["test"] = rows.pop("validation")
    if "validation" not in rows:
        train = rows.get("train", [])
        rows["validation"] = [row for row in train if _place(row) >= 0.9]
        rows["train"] = [row for row in train if _place(row) < 0.9]
    return rows


def limited(data: Dataset, limit: int) -> Dataset:
    """At most ``limit`` examples of each split, chosen by a digest of their texts.

    Raises TaskError where they are of one class only, and the data set is not.
    """
    chosen: dict[str, Any] = {
        split: tuple(sorted(getattr(data, split), key=lambda example: _place((example.texts, "")))[:limit])
        for split in SPLITS
    }
    for split in ("train", "test"):
        if len(data.labels) > 1 and len({example.label for example in chosen[split]}) < 2:
            raise TaskError(f"--limit {limit}: leaves one class only in the {split} split of {data.name}: raise it")
    return replace(data, **chosen)


def _place(row: Row) -> float:
    """A number in [0, 1) that depends on the texts of ``row`` alone."""
    digest = hashlib.sha256("\x1f".join(row[0]).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _classes(found: Iterable[str | int], labels: Sequence[str], where: str) -> dict[str | int, int]:
    """Index of each label as it stands in the file. Raises TaskError for one that ``labels`` does not have."""
    values = set(found)
    if len({type(value) for value in values}) > 1:
        raise TaskError(f"{where}: labels are text in some rows and numbers in others ({sorted(map(str, values))[:6]})")
    ordered = sorted(values)  # type: ignore[type-var]
    if not labels:
        return {value: place for place, value in enumerate(ordered)}
    index: dict[str | int, int] = {}
    for value in ordered:
        place = value if isinstance(value, int) else place_of(value, labels)
        if place is None or not 0 <= place < len(labels):
            raise TaskError(f"{where}: label {value!r} is none of {', '.join(labels)}")
        index[value] = place
    return index


def place_of(label: str, names: Sequence[str]) -> int | None:
    """Index of ``label`` in ``names``, whatever its case if that leaves no doubt; None where it is not there."""
    if label in names:
        return names.index(label)
    places = [place for place, name in enumerate(names) if name.lower() == label.strip().lower()]
    return places[0] if len(places) == 1 else None
