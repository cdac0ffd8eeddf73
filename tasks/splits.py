"""Make three disjoint splits of labelled rows, whatever the data set came with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from tasks.dataset import SPLITS, Dataset, Example
from tasks.errors import TaskError

Row = tuple[tuple[str, ...], str | int]  # texts and label, as in the file


def disjoint(name: str, rows: dict[str, list[Row]], labels: Sequence[str]) -> Dataset:
    """Three disjoint splits of ``rows``, given under ``train``, ``validation``, ``test`` or, undivided, ``all``.

    Undivided rows go 80:10:10. Without a test split the validation split is the test split (as with GLUE); without a
    validation split a tenth of the training rows becomes it. Which rows is fixed by a digest of their texts alone.
    Training and validation rows whose texts stand in a later split are dropped. ``labels``: names of the classes in
    order, where known. Raises TaskError for no rows, fewer than two classes, or a split left empty.
    """
    rows = {split: part for split, part in rows.items() if part}
    if not rows:
        raise TaskError(f"{name}: no labelled rows")
    if "all" in rows:
        parts: dict[str, list[Row]] = {split: [] for split in SPLITS}
        for row in rows["all"]:
            place = _place(row)
            parts["train" if place < 0.8 else "validation" if place < 0.9 else "test"].append(row)
        rows = parts
    rows = dict(rows)
    if "test" not in rows and "validation" in rows:
        rows["test"] = rows.pop("validation")
    if "validation" not in rows:
        train = rows.get("train", [])
        rows["validation"] = [row for row in train if _place(row) >= 0.9]
        rows["train"] = [row for row in train if _place(row) < 0.9]
    later: set[tuple[str, ...]] = set()
    for split in reversed(SPLITS):
        rows[split] = [row for row in rows.get(split, []) if row[0] not in later]
        later |= {texts for texts, _ in rows[split]}
        if not rows[split]:
            raise TaskError(f"{name}: the {split} split is empty: give more rows, or files named {', '.join(SPLITS)}")
    index = _classes([label for split in SPLITS for _, label in rows[split]], labels, name)
    names = tuple(labels) if labels else tuple(str(label) for label in index)
    examples = {split: tuple(Example(texts, index[label]) for texts, label in part) for split, part in rows.items()}
    for split in ("train", "test"):
        if len({example.label for example in examples[split]}) < 2:
            only = names[examples[split][0].label]
            raise TaskError(f"{name}: the {split} split has one class only ({only!r}); at least two are needed")
    return Dataset(name, names, **examples)


def limited(data: Dataset, limit: int) -> Dataset:
    """At most ``limit`` examples of each split, chosen by a digest of their texts."""
    chosen = {
        split: tuple(sorted(getattr(data, split), key=lambda example: _place((example.texts, "")))[:limit])
        for split in SPLITS
    }
    return Dataset(data.name, data.labels, **chosen)


def _place(row: Row) -> float:
    """A number in [0, 1) that depends on the texts of ``row`` alone."""
    digest = hashlib.sha256("\x1f".join(row[0]).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _classes(found: Iterable[str | int], labels: Sequence[str], name: str) -> dict[str | int, int]:
    """Index of each label as it stands in the file. Raises TaskError for one that ``labels`` does not have."""
    values = set(found)
    if len({type(value) for value in values}) > 1:
        raise TaskError(f"{name}: labels are text in some rows and numbers in others ({sorted(map(str, values))[:6]})")
    ordered = sorted(values)  # type: ignore[type-var]
    if not labels:
        return {value: place for place, value in enumerate(ordered)}
    known = {text.lower(): place for place, text in enumerate(labels)}
    index: dict[str | int, int] = {}
    for value in ordered:
        place = value if isinstance(value, int) else known.get(value.strip().lower(), -1)
        if not 0 <= place < len(labels):
            raise TaskError(f"{name}: label {value!r} is none of {', '.join(labels)}")
        index[value] = place
    return index
