"""Texts, labelled or not, from JSONL, CSV, Parquet or text files, a folder of them, or a data set of the hub."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tasks.dataset import Dataset
from tasks.errors import TaskError, first_line
from tasks.readers import ENDINGS, Located, class_names, read
from tasks.splits import Row, disjoint

SPLIT_NAMES = {
    "train": re.compile(r"(^|[^a-z])train", re.IGNORECASE),
    "validation": re.compile(r"(^|[^a-z])(val|dev|eval)", re.IGNORECASE),
    "test": re.compile(r"(^|[^a-z])test", re.IGNORECASE),
}
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?")
Part = tuple[str, list[str], Iterable[Located]]  # split, names of its integer labels (if it has them), rows


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
    """Read ``data`` into three disjoint splits (see ``tasks.splits.disjoint`` for how).

    ``labels`` fixes the classes and their order. Rows without a label (none, blank or -1) are dropped; whole numbers
    written as text are numbers. Raises TaskError, in one line, for anything that cannot be used.
    """
    path = resolve(data, mirror)
    rows: dict[str, list[Row]] = {}
    known: list[str] = []
    for split, names, table in _parts(data, path, label):
        known = known or names
        rows.setdefault(split, []).extend(_rows(table, columns, label, names))
    if not known:
        rows = _numbers(rows, data)
    name = short_name(data)
    return disjoint(Path(name).stem if path.is_file() else name, rows, labels or known, where=data)


def load_texts(data: str, columns: Sequence[str], mirror: str = "") -> Dataset:
    """Read ``data`` into three disjoint splits of texts, all of one class; several columns make one text, in lines.

    Rows without any text are dropped. Raises TaskError, in one line, for anything that cannot be used.
    """
    path = resolve(data, mirror)
    rows: dict[str, list[Row]] = {}
    for split, _, table in _parts(data, path, ""):
        for where, row in table:
            if missing := [column for column in columns if column not in row]:
                raise TaskError(
                    f"{where}: no column {missing[0]!r}; it has {', '.join(map(repr, row))}: give --text COLUMN"
                )
            filled = [column for column in columns if str("" if row[column] is None else row[column]).strip()]
            if parts := [_text(row[column], column, where) for column in filled]:
                rows.setdefault(split, []).append((("\n".join(parts),), 0))
    name = short_name(data)
    return disjoint(Path(name).stem if path.is_file() else name, rows, ("text",), where=data)


def _parts(data: str, path: Path, label: str) -> Iterator[Part]:
    """The parts of ``data``; a single file is split ``all``."""
    if path.is_file():
        yield "all", class_names(path, label), read(path)
    elif path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in ENDINGS and file.is_file()]
        parts = [(split, file) for file in files if (split := _split_of(file.relative_to(path)))]
        if not parts:
            raise TaskError(f"{data}: no {'/'.join(ENDINGS)} file here is named train, validation (dev) or test")
        for split, file in parts:
            yield split, class_names(file, label), read(file)
    elif path.suffix.lower() in ENDINGS or is_path(data):
        raise TaskError(f"{data}: no such file or folder")
    else:
        yield from _hub(data, label)


def _split_of(file: Path) -> str | None:
    """The split that a file's own name says it is of or, if that says nothing, the name of a folder it is in."""
    for name in reversed(file.with_suffix("").parts):
        for split, pattern in SPLIT_NAMES.items():
            if pattern.search(name):
                return split
    return None


def _hub(data: str, label: str) -> Iterator[Part]:
    """Splits of a hub data set, ``ID`` or ``ID:CONFIGURATION``, streamed."""
    import datasets  # takes seconds to import, and files do without

    name, _, configuration = data.partition(":")
    try:
        found = datasets.load_dataset(name, configuration or None, streaming=True)
    except Exception as error:
        raise TaskError(
            f"{data}: no such file or folder, and the hub did not give it ({first_line(error)}); "
            "give a local path, or --mirror DIR with a copy"
        ) from error
    for key in sorted(found):
        if split := _split_of(Path(key)):
            feature = (found[key].features or {}).get(label)
            names = list(feature.names) if isinstance(feature, datasets.ClassLabel) else []
            yield split, names, _streamed(found[key], f"{data} ({key})")


def _streamed(rows: Iterable[dict[str, Any]], where: str) -> Iterator[Located]:
    try:
        for number, row in enumerate(rows, 1):
            yield f"{where}: row {number}", row
    except (OSError, ValueError) as error:
        raise TaskError(f"{where}: the hub did not give all of it: {first_line(error)}") from error


def _rows(table: Iterable[Located], columns: Sequence[str], label: str, names: list[str]) -> list[Row]:
    """Texts and label of each labelled row. Raises TaskError for a missing column, an empty text, a strange label."""
    rows: list[Row] = []
    for where, row in table:
        for column in (*columns, label):
            if column not in row:
                flag = "--label" if column == label else "--text"
                raise TaskError(
                    f"{where}: no column {column!r}; it has {', '.join(map(repr, row))}: give {flag} COLUMN"
                )
        if (value := _label(row[label], names, where)) is not None:
            rows.append((tuple(_text(row[column], column, where) for column in columns), value))
    return rows


def _text(value: Any, column: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TaskError(f"{where}: column {column!r} holds no text but {_short(value)}")
    if not _encodable(value):
        raise TaskError(f"{where}: column {column!r} is not valid Unicode: {_short(value)}")
    return value


def _label(value: Any, names: list[str], where: str) -> str | int | None:
    """A label as text or whole number, by its name where ``names`` of numbers are known; None for no label."""
    if isinstance(value, str):
        if not _encodable(value):
            raise TaskError(f"{where}: label {_short(value)} is not valid Unicode")
        return value if value.strip() else None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (bool, int)) or (isinstance(value, float) and value.is_integer()):
        number = int(value)
        if number == -1:
            return None
        if names and not 0 <= number < len(names):
            raise TaskError(f"{where}: label {number} is none of the {len(names)} classes of this column")
        return names[number] if names else number
    raise TaskError(f"{where}: label {_short(value)} is no class; expected text or a whole number")


def _numbers(rows: dict[str, list[Row]], data: str) -> dict[str, list[Row]]:
    """``rows`` with numbers for labels where every label is a number written as text, as all are in CSV."""
    written = {label for part in rows.values() for _, label in part if isinstance(label, str)}
    if not all(NUMBER.fullmatch(label) for label in written):
        return rows
    number: dict[str | int, str | int | None] = {label: _label(float(label), [], data) for label in sorted(written)}
    return {
        split: [(texts, value) for texts, label in part if (value := number.get(label, label)) is not None]
        for split, part in rows.items()
    }


def _encodable(text: str) -> bool:
    """Whether ``text`` has no half of a surrogate pair, which JSON can hold and no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(value: Any) -> str:
    """``value`` as it stands in a complaint."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:59] + "…"
