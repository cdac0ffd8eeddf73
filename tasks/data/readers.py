"""Rows of JSONL, JSON, CSV, Parquet and text files, each with its location for error messages."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.errors import TaskError, first_line

Located = tuple[str, dict[str, Any]]  # file and line of a row, and its values by column
SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".txt")


def read(file: Path) -> Iterator[Located]:
    """Rows of ``file``, in order. Raises TaskError, with file and line, if it cannot be read."""
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        raise TaskError(
            f"{file}: cannot read {file.suffix or 'a file without a suffix'}; expected one of {', '.join(SUFFIXES)}"
        )
    try:
        if file.stat().st_size == 0:
            raise TaskError(f"{file}: the file is empty")
        yield from {".csv": _csv, ".parquet": _parquet, ".txt": _paragraphs}.get(suffix, _json)(file)
    except UnicodeDecodeError as error:
        raise TaskError(f"{file}: not UTF-8 text: {error.reason} at byte {error.start}; save it as UTF-8") from error
    except OSError as error:
        raise TaskError(f"{file}: cannot be read: {error.strerror or error}") from error


def class_names(file: Path, column: str) -> list[str]:
    """Names of the integer labels in ``column``, if a Parquet file has them, as those of ``datasets`` do."""
    import pyarrow.parquet

    if file.suffix.lower() != ".parquet":
        return []
    try:
        metadata = pyarrow.parquet.read_schema(file).metadata or {}
        features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    except (OSError, ValueError, AttributeError):  # ``read`` reports broken files
        return []
    feature = features.get(column) or {}
    return list(feature.get("names") or []) if feature.get("_type") == "ClassLabel" else []


def _json(file: Path) -> Iterator[Located]:
    """One object per line, or one array of objects."""
    begun = False
    with file.open(encoding="utf-8-sig", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            if not begun and line.lstrip().startswith("["):
                whole = _parsed(line + lines.read(), str(file))
                for place, value in enumerate(whole, 1):
                    yield f"{file}: entry {place}", _object(value, f"{file}: entry {place}")
                return
            if line.strip():
                begun = True
                where = f"{file}: line {number}"
                yield where, _object(_parsed(line, where), where)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TaskError(f"{where}: not valid JSON: {error.msg} (character {error.pos + 1})") from error
    except (ValueError, RecursionError) as error:  # a number that is too long, or too deep a nesting
        raise TaskError(f"{where}: not valid JSON: {first_line(error)}") from error


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TaskError(f'{where}: expected an object such as {{"text": "...", "label": 1}}')
    return value


def _csv(file: Path) -> Iterator[Located]:
    """A header, then lines with as many fields; an empty field is a missing value."""
    csv.field_size_limit(sys.maxsize)
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, strict=True)
        header: list[str] = []
        try:
            for fields in reader:
                where = f"{file}: line {reader.line_num}"
                if not header:
                    header = fields
                    _check_distinct(header, where)
                elif fields and len(fields) != len(header):
                    raise TaskError(
                        f"{where}: {len(fields)} fields, the header has {len(header)}; quote fields that contain ,"
                    )
                elif fields:
                    yield where, {name: field or None for name, field in zip(header, fields, strict=True)}
        except csv.Error as error:
            raise TaskError(f"{file}: line {reader.line_num}: not valid CSV: {error}") from error


def _check_distinct(columns: list[str], where: str) -> None:
    """Raise TaskError if two columns have the same name."""
    if twice := {name for name in columns if columns.count(name) > 1}:
        raise TaskError(f"{where}: there are two columns {min(twice)!r}")


def _paragraphs(file: Path) -> Iterator[Located]:
    """Paragraphs, which blank lines separate, as ``text``."""
    lines: list[str] = []
    with file.open(encoding="utf-8-sig") as whole:
        for number, line in enumerate([*whole, ""], 1):
            if line.strip():
                lines.append(line.strip())
            elif lines:
                yield f"{file}: line {number - len(lines)}", {"text": "\n".join(lines)}
                lines = []


def _parquet(file: Path) -> Iterator[Located]:
    import pyarrow
    import pyarrow.parquet

    place = 0
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            _check_distinct(table.schema_arrow.names, str(file))
            for batch in table.iter_batches():
                for row in batch.to_pylist():
                    place += 1
                    yield f"{file}: row {place}", row
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise TaskError(f"{file}: not valid Parquet: {first_line(error)}") from error
