"""Texts, labelled or not, from JSONL, CSV, Parquet or text files, a folder of them, or a data set of the hub."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tasks.data.dataset import SPLITS, Dataset
from tasks.data.hub import is_saved, saved, streamed
from tasks.data.labels import as_numbers, is_unicode, label_of, short
from tasks.data.readers import ENDINGS, Located, class_names, read
from tasks.data.splits import Row, disjoint
from tasks.errors import TaskError

_WORDS = {
    "train": "train(ing)?",
    "validation": "val(id(ate|ation)?)?|dev(el|elopment)?|eval(s|uation)?",
    "test": "test(s|ing)?",
}
# Words of their own in a name, so that neither "devices" nor "testimonials" is a split; digits may follow.
SPLIT_NAMES = {
    split: re.compile(rf"(?<![a-z])({words})(set|split|data)?(?![a-z])", re.IGNORECASE)
    for split, words in _WORDS.items()
}
SHOWN = 4  # names in a remark, at most


class Part(NamedTuple):
    """One file, or one split of the library ``datasets``."""

    split: str | None  # one of SPLITS, "all" for what is undivided, None where its name says nothing
    name: str  # in its folder, or the split's own
    classes: list[str]  # names of its integer labels, if it has them
    rows: Iterable[Located]


def resolve(name: str, mirror: str = "") -> Path:
    """The local path of ``name``: itself, or its place in the mirror (``ORG/NAME``, ``ORG--NAME`` or ``NAME``).

    A configuration, ``NAME:CONFIGURATION``, is a folder in that place. Where nothing is there the path returned does
    not exist either: then ``name`` is for the hub. Raises TaskError for a mirror that is no folder.
    """
    given = Path(name).expanduser()
    if given.exists() or not mirror:
        return given
    if not Path(mirror).is_dir():
        raise TaskError(f"--mirror {mirror}: no such folder")
    name, _, configuration = name.partition(":")
    places = [Path(mirror) / place / configuration for place in (name, name.replace("/", "--"), name.split("/")[-1])]
    return next((place for place in places if place.exists()), given)


def is_path(name: str) -> bool:
    """Whether ``name`` can only be meant as a path: nothing of the hub is called like that."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1


def short_name(asked: str) -> str:
    """What was asked for, a path or an id, without folders: the same wherever a copy of it is found."""
    path = Path(asked).expanduser()
    return path.name if path.name not in ("", "..") else path.resolve().name


def load(data: str, columns: Sequence[str], label: str, *, labels: Sequence[str] = (), mirror: str = "") -> Dataset:
    """Read ``data`` into three disjoint splits (see ``tasks.data.splits.disjoint`` for how).

    ``labels`` fixes the classes and their order. Rows without a label (none, blank or -1, as number or as text) are
    dropped, which the remarks tell; white space around a label is no part of it, and whole numbers written as text are
    numbers. Raises TaskError, in one line, for anything that cannot be used.
    """
    path = resolve(data, mirror)
    rows: dict[str, list[Row]] = {}
    known: list[str] = []
    dropped: Counter[str] = Counter()
    parts = _parts(data, path, label)
    for part in parts:
        if part.split:
            known = known or part.classes
            rows.setdefault(part.split, []).extend(_rows(part.rows, columns, label, part.classes, dropped))
    if not known:
        rows = as_numbers(rows, data)
    found = disjoint(_name(data, path), rows, labels or known, where=data)
    return replace(found, remarks=(*_unlabelled(dropped, found.labels), *_origins(parts)))


def load_texts(data: str, columns: Sequence[str], mirror: str = "") -> Dataset:
    """Read ``data`` into three disjoint splits of texts, all of one class; several columns make one text, in lines.

    Rows without any text are dropped, which the remarks tell. Raises TaskError, in one line, for anything that cannot
    be used.
    """
    path = resolve(data, mirror)
    rows: dict[str, list[Row]] = {}
    empty = 0
    parts = _parts(data, path, "")
    for part in parts:
        for where, row in part.rows if part.split else ():
            if missing := [column for column in columns if column not in row]:
                raise TaskError(
                    f"{where}: no column {missing[0]!r}; it has {', '.join(map(repr, row))}: give --text COLUMN"
                )
            filled = [column for column in columns if str("" if row[column] is None else row[column]).strip()]
            if lines := [_text(row[column], column, where) for column in filled]:
                rows.setdefault(str(part.split), []).append((("\n".join(lines),), 0))
            else:
                empty += 1
    told = [f"{empty} {'row' if empty == 1 else 'rows'} without text dropped"] if empty else []
    return replace(disjoint(_name(data, path), rows, ("text",), where=data), remarks=(*told, *_origins(parts)))


def _name(data: str, path: Path) -> str:
    """The data set's own name: of a file, without its ending."""
    name = short_name(data)
    return Path(name).stem if path.is_file() else name


def _parts(data: str, path: Path, label: str) -> list[Part]:
    """The parts of ``data``, to be read yet. Raises TaskError where none of them is of a split."""
    if path.is_file():
        return [Part("all", path.name, class_names(path, label), read(path))]
    if is_saved(path):
        parts = [Part(_split_of(split[0]) if split[0] else "all", *split) for split in saved(path, data, label)]
    elif path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in ENDINGS and file.is_file()]
        names = [str(file.relative_to(path)) for file in files]
        parts = [
            Part(_split_of(name), name, class_names(file, label), read(file))
            for name, file in zip(names, files, strict=True)
        ]
        if not any(part.split for part in parts):
            raise TaskError(f"{data}: no {'/'.join(ENDINGS)} file here is named train, validation (dev) or test")
    elif path.suffix.lower() in ENDINGS or is_path(data):
        raise TaskError(f"{data}: no such file or folder")
    else:
        parts = [Part(_split_of(split[0]), *split) for split in streamed(data, label)]
    if not any(part.split for part in parts):
        there = _listed([part.name for part in parts])
        raise TaskError(f"{data}: no split here is named train, validation (dev) or test; there is {there}")
    return parts


def _split_of(name: str) -> str | None:
    """The split that a file's own name says it is of or, if that says nothing, the name of a folder it is in."""
    for word in reversed(Path(name).with_suffix("").parts):
        for split, pattern in SPLIT_NAMES.items():
            if pattern.search(word):
                return split
    return None


def _origins(parts: Sequence[Part]) -> list[str]:
    """What is told of splits that several files made, and of files that are of none."""
    told = []
    for split in SPLITS:
        names = [part.name for part in parts if part.split == split]
        told += [f"{split} is {_listed(names)}"] if len(names) > 1 else []
    endings = {Path(part.name).suffix for part in parts if part.split}  # a README.txt beside tables is no data
    unread = [part.name for part in parts if part.split is None and Path(part.name).suffix in endings]
    return [*told, f"of no split and not read: {_listed(unread)}"] if unread else told


def _unlabelled(dropped: Counter[str], classes: Sequence[str]) -> list[str]:
    """What is told of rows without a label."""
    left = ", ".join(classes) if len(classes) <= SHOWN else f"{len(classes)} classes"
    meaning = {"none": "without a label", "-1": f"labelled -1, which stands for no label (left are {left}),"}
    return [
        f"{dropped[kind]} {'row' if dropped[kind] == 1 else 'rows'} {meaning[kind]} dropped"
        for kind in meaning
        if dropped[kind]
    ]


def _listed(names: Sequence[str]) -> str:
    """``names`` for people, some of many."""
    shown = " + ".join(names[:SHOWN])
    return shown + f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)


def _rows(
    table: Iterable[Located], columns: Sequence[str], label: str, names: list[str], dropped: Counter[str]
) -> list[Row]:
    """Texts and label of each labelled row; the others count as ``dropped``, under ``-1`` or ``none``.

    Raises TaskError for a missing column, an empty text, a strange label.
    """
    rows: list[Row] = []
    for where, row in table:
        for column in (*columns, label):
            if column not in row:
                flag = "--label" if column == label else "--text"
                raise TaskError(
                    f"{where}: no column {column!r}; it has {', '.join(map(repr, row))}: give {flag} COLUMN"
                )
        if (value := label_of(row[label], names, where)) is not None:
            rows.append((tuple(_text(row[column], column, where) for column in columns), value))
        else:
            dropped["-1" if str(row[label]).strip().startswith("-1") else "none"] += 1
    return rows


def _text(value: Any, column: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TaskError(f"{where}: column {column!r} holds no text but {short(value)}")
    if not is_unicode(value):
        raise TaskError(f"{where}: column {column!r} is not valid Unicode: {short(value)}")
    return value
