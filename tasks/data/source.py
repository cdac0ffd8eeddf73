"""Texts, with or without labels, from files (JSONL, CSV, TSV, Parquet, text), a folder of them, or the hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks.data.dataset import SPLITS, Dataset
from tasks.data.labels import as_names, as_numbers, is_unicode, label_of, short
from tasks.data.location import resolve, short_name
from tasks.data.parts import SHOWN, Data, Part, listed, origins, parts_of
from tasks.data.readers import ROW
from tasks.data.splits import Row, UnknownLabel, disjoint
from tasks.errors import TaskError


def load(data: Data, columns: Sequence[str], label: str, *, labels: Sequence[str] = (), mirror: str = "") -> Dataset:
    """Read ``data`` into three disjoint splits (see ``tasks.data.splits.disjoint`` for how).

    ``labels`` fixes the classes and their order. Rows without a label (missing, blank or -1, as number or text; with
    ``labels`` also -, as in MNLI) are dropped; white space around labels is removed, and whole numbers written as text
    are numbers: of the classes that another file names, if one does. The remarks say which files were read, what was
    dropped, and where numbers stand for names. Raises TaskError, in one line, for anything that cannot be used.
    """
    rows: dict[str, list[Row]] = {}
    dropped: Counter[str] = Counter()
    places: dict[str | int, str] = {}
    numbered: list[str] = []  # parts whose labels are the numbers of classes that another part names
    parts = parts_of(data, mirror, columns, label)
    known = _declared(parts)
    if len(known) == 1 and not labels:  # of which ``disjoint`` makes texts without labels
        raise TaskError(f"{where_of(data)}: one class only ({known[0]!r}); at least two are needed")
    for part in parts:
        if part.split:
            found = _rows(part, columns, label, labels, dropped, places)
            if known and not part.classes:
                named = as_names(found, places, known)
                numbered += [part.name] if named != found else []
                found = named
            rows.setdefault(part.split, []).extend(found)
    if not known:
        rows, places = as_numbers(rows, places)
    try:
        dataset = disjoint(name_of(data, mirror), rows, labels or known, where_of(data), places=places)
    except UnknownLabel as error:
        if labels:  # the classes are the task's, and another task may have these
            raise
        raise TaskError(str(error)) from error
    except TaskError as error:
        unlabelled = "; ".join(_unlabelled(Counter({"-1": dropped["-1"]}), ()))
        raise TaskError("; ".join(filter(None, (str(error), unlabelled)))) from error
    told = [*origins(parts, rows), *_unlabelled(dropped, dataset.labels)]
    if numbered:
        meant = listed([f"{number} is {name}" for number, name in enumerate(known)], ", ")
        told.append(f"labels of {listed(numbered)} are numbers of classes: {meant}")
    return replace(dataset, remarks=(*told, *dataset.remarks))


def load_texts(data: Data, columns: Sequence[str], mirror: str = "", *, only_train: bool = False) -> Dataset:
    """Read ``data`` into three disjoint splits of texts, all of one class; several columns are joined by line breaks.

    Rows without any text are dropped. With ``only_train`` nothing is taken from the training split for the other two,
    which may be empty. The remarks say which files were read and what was dropped. Raises TaskError, in one line, for
    anything that cannot be used.
    """
    rows: dict[str, list[Row]] = {}
    empty = 0
    parts = parts_of(data, mirror, columns)
    for part in parts:
        for where, row in part.rows if part.split else ():
            _check_columns(part, where, row, {"--text": columns})
            filled = [column for column in columns if str("" if row[column] is None else row[column]).strip()]
            if lines := [_text(row[column], column, where) for column in filled]:
                rows.setdefault(str(part.split), []).append((("\n".join(lines),), 0))
            else:
                empty += 1
    dropped = [f"{empty} {'row' if empty == 1 else 'rows'} without text dropped"] if empty else []
    found = disjoint(name_of(data, mirror), rows, ("text",), where_of(data), only_train=only_train)
    return replace(found, remarks=(*origins(parts, rows), *dropped, *found.remarks))


def load_pairs(data: Data, columns: Sequence[str], mirror: str = "") -> Dataset:
    """Read ``data`` into three disjoint splits of pairs, such as texts and their translations, all of one class.

    columns: of both texts, or their languages in a column ``translation`` that holds a text by language, as data sets
        on the hub have it.

    A first text that is in a later split too is dropped, whatever its second. The remarks say which files were read and
    what was dropped. Raises TaskError, in one line, for anything that cannot be used.
    """
    rows: dict[str, list[Row]] = {}
    parts = parts_of(data, mirror, columns)
    for part in parts:
        for where, row in part.rows if part.split else ():
            inside: Any = row.get("translation")
            nested = "translation" in row and not set(columns) & set(row)
            if nested and inside is None:
                raise TaskError(f"{where}: column 'translation' is empty")
            if nested and isinstance(inside, dict):
                where, part, row = f"{where}: translation", part._replace(header=""), inside
            _check_columns(part, where, row, {"--text": columns})
            texts = tuple(_text(row[column], column, where) for column in columns)
            rows.setdefault(str(part.split), []).append((texts, 0))
    found = disjoint(name_of(data, mirror), rows, ("text",), where_of(data))
    later: set[str] = set()
    repeats: list[str] = []
    left: dict[str, Any] = {}
    for split in reversed(SPLITS):
        given = getattr(found, split)
        kept = tuple(example for example in given if example.texts[0] not in later)
        later |= {example.texts[0] for example in kept}
        if gone := len(given) - len(kept):
            repeats.append(f"{gone} more of {split} dropped: with the first text of a later split")
        if not kept:
            raise TaskError(f"{where_of(data)}: the {split} split is empty: all its texts are in a later split too")
        left[split] = kept
    return replace(found, **left, remarks=(*origins(parts, rows), *found.remarks, *repeats))


def name_of(data: Data, mirror: str = "") -> str:
    """Name of the data set: of a file, without its suffix; of several files, joined."""
    if not isinstance(data, str):
        return "+".join(dict.fromkeys(Path(short_name(file)).stem for file in data.values()))
    name = short_name(data)
    return Path(name).stem if resolve(data, mirror).is_file() else name


def where_of(data: Data) -> str:
    """``data`` as error messages begin."""
    return data if isinstance(data, str) else " + ".join(data.values())


def _declared(parts: Sequence[Part]) -> list[str]:
    """The classes that ``parts`` name, if any: those of the training split, of which others may have fewer."""
    named = (part.classes for split in (*SPLITS, "all") for part in parts if part.split == split)
    return next(filter(None, named), [])


def _unlabelled(dropped: Counter[str], classes: Sequence[str]) -> list[str]:
    """Remarks on rows without a label, which leave ``classes`` if any."""
    remaining = ", ".join(classes) if len(classes) <= SHOWN else f"{len(classes)} classes"
    left = f" (remaining: {remaining})" if classes else ""
    meaning = {"none": "without a label", "-1": f"labelled -1, which means no label{left},"}
    return [
        f"{dropped[kind]} {'row' if dropped[kind] == 1 else 'rows'} {meaning[kind]} dropped"
        for kind in meaning
        if dropped[kind]
    ]


def _rows(
    part: Part,
    columns: Sequence[str],
    label: str,
    labels: Sequence[str],
    dropped: Counter[str],
    places: dict[str | int, str],
) -> list[Row]:
    """Texts and label of each labelled row; the others are counted in ``dropped``, under ``-1`` or ``none``.

    labels: the classes, where they are fixed. places: receives file and line where each label first stands. Raises
    TaskError for a missing column, an empty text, or a label that is neither text nor a whole number.
    """
    rows: list[Row] = []
    other_rows: dict[str, Any] = {}  # what a row after the first holds, unless it says otherwise
    for where, row in part.rows:
        row = other_rows | row
        _check_columns(part, where, row, {"--text": columns, "--label": [label]})
        other_rows = {label: None}  # JSON may leave out what is missing
        value = label_of(row[label], part.classes, where)
        if value is not None and not (value == "-" and labels and "-" not in labels):
            rows.append((tuple(_text(row[column], column, where) for column in columns), value))
            places.setdefault(value, where)
        else:
            dropped["-1" if str(row[label]).strip().startswith("-1") else "none"] += 1
    return rows


def _check_columns(part: Part, where: str, row: Mapping[str, Any], wanted: Mapping[str, Sequence[str]]) -> None:
    """Raise TaskError if ``row`` lacks a column; wanted: columns by the flag that names them."""
    for flag, columns in wanted.items():
        for column in columns:
            if column not in row:
                known = ", ".join(map(repr, row))
                raise TaskError(f"{part.header or where}: no column {column!r}; it has {known}: give {flag} COLUMN")


def _text(value: Any, column: str, where: str) -> str:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise TaskError(f"{where}: column {column!r} is empty")
    if not isinstance(value, str):
        raise TaskError(f"{where}: column {column!r} has no text but {short(value)}")
    if len(value) > ROW:
        raise TaskError(f"{where}: column {column!r} has a text of {len(value):,} characters; at most {ROW:,} are read")
    if not is_unicode(value):
        raise TaskError(f"{where}: column {column!r} is not valid Unicode: {short(value)}")
    return value
