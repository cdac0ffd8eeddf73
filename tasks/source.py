"""Read labelled texts from JSONL, CSV or Parquet files, a folder of them, or a data set of the hub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tasks.dataset import Dataset
from tasks.errors import TaskError
from tasks.splits import Row, disjoint

READERS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
SPLIT_NAMES = {
    "train": re.compile(r"(^|[^a-z])train", re.IGNORECASE),
    "validation": re.compile(r"(^|[^a-z])(val|dev|eval)", re.IGNORECASE),
    "test": re.compile(r"(^|[^a-z])test", re.IGNORECASE),
}


def resolve(name: str, mirror: str = "") -> Path:
    """The local path of ``name``: itself, or its place in the mirror (``ORG/NAME``, ``ORG--NAME`` or ``NAME``).

    Where neither exists the path returned does not exist either: then ``name`` is for the hub.
    """
    given = Path(name).expanduser()
    if given.exists() or not mirror:
        return given
    places = [Path(mirror) / place for place in (name, name.replace("/", "--"), name.split("/")[-1])]
    return next((place for place in places if place.exists()), given)


def load(data: str, columns: Sequence[str], label: str, *, labels: Sequence[str] = (), mirror: str = "") -> Dataset:
    """Read ``data`` into three disjoint splits (see ``tasks.splits.disjoint`` for how).

    ``labels`` fixes the classes and their order. Rows without a label (none, or -1) are dropped. Raises TaskError, in
    one line, for anything that cannot be read.
    """
    path = resolve(data, mirror)
    rows: dict[str, list[Row]] = {}
    names: list[str] = []
    for split, table, classes in _tables(data, path):
        where = f"{data} ({split})" if path.is_dir() else data
        rows.setdefault(split, []).extend(_rows(table, columns, label, where))
        names = names or classes
    return disjoint(path.stem if path.exists() else data, rows, labels or names)


def _tables(data: str, path: Path) -> Iterable[tuple[str, Iterable[dict[str, Any]], list[str]]]:
    """(split, rows, names of integer labels) of each part of ``data``; a single file is split ``all``."""
    if path.is_file():
        yield "all", _read([path], data), []
    elif path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.suffix in READERS]
        for split, pattern in SPLIT_NAMES.items():
            if matching := [file for file in files if pattern.search(file.stem)]:
                yield split, _read(matching, data), []
        if not any(pattern.search(file.stem) for file in files for pattern in SPLIT_NAMES.values()):
            raise TaskError(f"{data}: no {'/'.join(READERS)} file here is named train, validation (dev) or test")
    elif path.suffix in READERS or data.startswith((".", "/", "~")) or data.count("/") > 1:
        raise TaskError(f"{data}: no such file or folder")
    else:
        yield from _read_hub(data)


def _read(files: list[Path], data: str) -> Iterable[dict[str, Any]]:
    """Rows of local files, streamed, so that nothing is written anywhere."""
    import datasets  # takes seconds to import, and built-in data does without

    for file in files:
        if file.suffix not in READERS:
            raise TaskError(f"{file}: cannot read {file.suffix or 'a file without ending'}; give {', '.join(READERS)}")
        if not os.access(file, os.R_OK):
            raise TaskError(f"{file}: no permission to read it")
        if file.stat().st_size == 0:
            raise TaskError(f"{file}: the file is empty")
        try:
            yield from datasets.load_dataset(READERS[file.suffix], data_files=str(file), split="train", streaming=True)
        except Exception as error:  # whatever a parser says of a broken file
            raise TaskError(f"{file}: not readable as {file.suffix[1:].upper()}: {first_line(error)}") from error


def _read_hub(data: str) -> Iterable[tuple[str, Iterable[dict[str, Any]], list[str]]]:
    """Splits of a hub data set, ``ID`` or ``ID:CONFIGURATION``, streamed."""
    import datasets

    name, _, configuration = data.partition(":")
    try:
        parts = datasets.load_dataset(name, configuration or None, streaming=True)
    except Exception as error:
        raise TaskError(
            f"{data}: no such file or folder, and the hub did not give it ({first_line(error)}); "
            "give a local path, or --mirror DIR with a copy"
        ) from error
    for split, pattern in SPLIT_NAMES.items():
        part = next((parts[key] for key in sorted(parts) if pattern.search(key)), None)
        if part is not None:
            features = part.features or {}
            names: list[str] = next((f.names for f in features.values() if isinstance(f, datasets.ClassLabel)), [])
            yield split, part, names


def _rows(table: Iterable[dict[str, Any]], columns: Sequence[str], label: str, where: str) -> list[Row]:
    """Texts and label of each labelled row. Raises TaskError for a missing column or an empty text."""
    rows: list[Row] = []
    for number, row in enumerate(table, 1):
        for column in (*columns, label):
            if column not in row:
                flag = "--label" if column == label else "--text"
                raise TaskError(f"{where}: no column {column!r}; it has {', '.join(row)}: name one with {flag}")
        if row[label] is None or row[label] == -1:
            continue
        texts = tuple(row[column] for column in columns)
        for column, text in zip(columns, texts, strict=True):
            if not isinstance(text, str) or not text.strip():
                raise TaskError(f"{where}: row {number}: column {column!r} holds no text ({text!r})")
        if isinstance(row[label], float) and not row[label].is_integer():
            raise TaskError(f"{where}: row {number}: label {row[label]} is no class; expected text or a whole number")
        rows.append((texts, int(row[label]) if isinstance(row[label], (bool, float)) else row[label]))
    return rows


def first_line(error: BaseException) -> str:
    """The first line of what went wrong at the root of ``error``."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
