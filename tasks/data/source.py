"""Texts, with or without labels, from files (JSONL, CSV, Parquet, text), a folder of them, or the hub."""

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
from tasks.data.readers import SUFFIXES, Located, class_names, read
from tasks.data.splits import Row, disjoint
from tasks.errors import TaskError

_WORDS = {
    "train": "train(ing)?",
    "validation": "val(id(ate|ation)?)?|dev(el|elopment)?|eval(s|uation)?",
    "test": "test(s|ing)?",
}
# Whole words in a name, so that neither "devices" nor "testimonials" is a split; digits may follow.
SPLIT_NAMES = {
    split: re.compile(rf"(?<![a-z])({words})(set|split|data)?(?![a-z])", re.IGNORECASE)
    for split, words in _WORDS.items()
}
SHOWN = 4  # most names in a remark


class Part(NamedTuple):
    """One file, or one split of the library ``datasets``."""

    split: str | None  # one of SPLITS, "all" for undivided data, None if its name says nothing
    name: str  # of the file in its folder, or of the split
    classes: list[str]  # names of its integer labels, if it has them
    rows: Iterable[Located]


def resolve(name: str, mirror: str = "") -> Path:
    """The local path of ``name``: itself, or its copy in the mirror (``ORG/NAME``, ``ORG--NAME`` or ``NAME``).

    A configuration, ``NAME:CONFIGURATION``, is a folder in that copy. A path that does not exist means that ``name``
    has to come from the hub. Raises TaskError for a mirror that is not a folder.
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
    """Whether ``name`` can only be a path: no hub id looks like that."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1


def short_name(path_or_id: str) -> str:
    """A path or an id without folders: the same wherever a copy of it is."""
    path = Path(path_or_id).expanduser()
    return path.name if path.name not in ("", "..") else path.resolve().name


def load(data: str, columns: Sequence[str], label: str, *, labels: Sequence[str] = (), mirror: str = "") -> Dataset:
    """Read ``data`` into three disjoint splits (see ``tasks.data.splits.disjoint`` for how).

    ``labels`` fixes the classes and their order. Rows without a label (missing, blank or -1, as number or text) are
    dropped, and counted in the remarks; white space around labels is removed, and whole numbers written as text are
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
    """Read ``data`` into three disjoint splits of texts, all of one class; several columns are joined by line breaks.

    Rows without any text are dropped, and counted in the remarks. Raises TaskError, in one line, for anything that
    cannot be used.
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
    dropped = [f"{empty} {'row' if empty == 1 else 'rows'} without text dropped"] if empty else []
    return replace(disjoint(_name(data, path), rows, ("text",), where=data), remarks=(*dropped, *_origins(parts)))


def _name(data: str, path: Path) -> str:
    """Name of the data set: of a file, without its suffix."""
    name = short_name(data)
    return Path(name).stem if path.is_file() else name


def _parts(data: str, path: Path, label: str) -> list[Part]:
    """The parts of ``data``, not read yet. Raises TaskError if none of them belongs to a split."""
    if path.is_file():
        return [Part("all", path.name, class_names(path, label), read(path))]
    if is_saved(path):
        parts = [Part(_split_of(split[0]) if split[0] else "all", *split) for split in saved(path, data, label)]
    elif path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in SUFFIXES and file.is_file()]
        names = [str(file.relative_to(path)) for file in files]
        parts = [
            Part(_split_of(name), name, class_names(file, label), read(file))
            for name, file in zip(names, files, strict=True)
        ]
        if not any(part.split for part in parts):
            raise TaskError(f"{data}: no {'/'.join(SUFFIXES)} file here is named train, validation (dev) or test")
    elif path.suffix.lower() in SUFFIXES or is_path(data):
        raise TaskError(f"{data}: no such file or folder")
    else:
        parts = [Part(_split_of(split[0]), *split) for split in streamed(data, label)]
    if not any(part.split for part in parts):
        found = _listed([part.name for part in parts])
        raise TaskError(f"{data}: no split here is named train, validation (dev) or test; found: {found}")
    return parts


def _split_of(name: str) -> str | None:
    """The split that a file's name or, if it says nothing, the name of a folder around it stands for."""
    for word in reversed(Path(name).with_suffix("").parts):
        for split, pattern in SPLIT_NAMES.items():
            if pattern.search(word):
                return split
    return None


def _origins(parts: Sequence[Part]) -> list[str]:
    """Remarks on splits that are made of several files, and on files that belong to none."""
    remarks = []
    for split in SPLITS:
        names = [part.name for part in parts if part.split == split]
        remarks += [f"{split} is {_listed(names)}"] if len(names) > 1 else []
    endings = {Path(part.name).suffix for part in parts if part.split}  # a README.txt beside tables is not data
    unread = [part.name for part in parts if part.split is None and Path(part.name).suffix in endings]
    return [*remarks, f"not read, as the name is of no split: {_listed(unread)}"] if unread else remarks


def _unlabelled(dropped: Counter[str], classes: Sequence[str]) -> list[str]:
    """Remarks on rows without a label."""
    remaining = ", ".join(classes) if len(classes) <= SHOWN else f"{len(classes)} classes"
    meaning = {"none": "without a label", "-1": f"labelled -1, which means no label (remaining: {remaining}),"}
    return [
        f"{dropped[kind]} {'row' if dropped[kind] == 1 else 'rows'} {meaning[kind]} dropped"
        for kind in meaning
        if dropped[kind]
    ]


def _listed(names: Sequence[str]) -> str:
    """``names`` as text, with at most ``SHOWN`` of them."""
    shown = " + ".join(names[:SHOWN])
    return shown + f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)


def _rows(
    table: Iterable[Located], columns: Sequence[str], label: str, names: list[str], dropped: Counter[str]
) -> list[Row]:
    """Texts and label of each labelled row; the others are counted in ``dropped``, under ``-1`` or ``none``.

    Raises TaskError for a missing column, an empty text, or a label that is neither text nor a whole number.
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
        raise TaskError(f"{where}: column {column!r} has no text but {short(value)}")
    if not is_unicode(value):
        raise TaskError(f"{where}: column {column!r} is not valid Unicode: {short(value)}")
    return value
