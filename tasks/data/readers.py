"""Rows of JSONL, JSON, CSV, TSV, Parquet and text files, each with its location for error messages.

What is in memory at once is bounded, so that a file that is damaged, or not what its name says, ends in one line.
"""

from __future__ import annotations

import codecs
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from tasks.errors import TaskError, first_line

Located = tuple[str, dict[str, Any]]  # file and line of a row, and its values by column
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".txt")
ROW = 10_000_000  # most characters of a row of text: three times War and Peace
ARRAY = 100_000_000  # most characters of what is parsed as a whole: an array in JSON, the articles of WikiText
OBJECTS = 2_000_000  # most objects and arrays in it, by their brackets: each takes hundreds of bytes even if empty
DECODED = 1_000_000_000  # bytes that any Parquet file may decode to
RATIO = 20  # most bytes for each byte of a larger file; compressed text has 2 to 10
BATCH = 1 << 29  # bytes that the values of a column decoded at once may take
PIECE = 1 << 20  # bytes of a file that are looked at together
PER_ROW = 100  # bytes of a row in memory, whatever it holds


def read(file: Path, columns: Sequence[str] = ()) -> Iterator[Located]:
    """Rows of ``file``, in order; of Parquet only ``columns``, if it has them all (default: every column).

    Raises TaskError, with file and line, if it cannot be read, has no row, or is beyond the bounds above.
    """
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        raise TaskError(
            f"{file}: cannot read {file.suffix or 'a file without a suffix'}; expected one of {', '.join(SUFFIXES)}"
        )
    with _reading(file):
        if file.stat().st_size == 0:
            raise TaskError(f"{file}: the file is empty")
        if suffix == ".parquet":
            rows = _parquet(file, columns)
        else:
            rows = {".csv": _csv, ".tsv": _tsv, ".txt": _paragraphs}.get(suffix, _json)(file)
        first = next(rows, None)
        if first is None:
            raise TaskError(f"{file}: no row in it")
        yield first
        yield from rows


def whole_text(file: Path) -> str:
    """All text of ``file``. Raises TaskError if it cannot be read, or has more than ARRAY characters."""
    with _reading(file), file.open(encoding="utf-8-sig") as stream:
        text = stream.read(ARRAY + 1)
    if len(text) > ARRAY:
        raise TaskError(f"{file}: more than {ARRAY:,} characters in one text; give a part of it")
    return text


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Raise TaskError for what makes ``file`` unreadable."""
    try:
        yield
    except UnicodeDecodeError as error:
        line = _line_that_is_not_utf8(file)
        raise TaskError(f"{file}: line {line}: not UTF-8 text: {error.reason}; save it as UTF-8") from error
    except OSError as error:
        raise TaskError(f"{file}: cannot be read: {error.strerror or error}") from error


def _line_that_is_not_utf8(file: Path) -> int:
    """The first one. (The place in the error counts from the piece of the file that was decoded last.)"""
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with file.open("rb") as stream:
        while piece := stream.read(PIECE):
            try:
                decoder.decode(piece)
            except UnicodeDecodeError as error:
                return line + error.object[: error.start].count(b"\n")
            line += piece.count(b"\n")
    return line  # it ends within a character


def class_names(file: Path, column: str) -> list[str]:
    """Names of the integer labels in ``column``, if a Parquet file has them, as those of ``datasets`` do."""
    import pyarrow.parquet

    if file.suffix.lower() != ".parquet":
        return []
    try:
        metadata = pyarrow.parquet.read_schema(file).metadata or {}
        features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
        feature = features.get(column) or {}
        return list(feature.get("names") or []) if feature.get("_type") == "ClassLabel" else []
    except (OSError, ValueError, AttributeError, RecursionError):  # ``read`` reports broken files
        return []


class _Lines:
    """Lines of a file, of which those since ``begin`` may have ``ROW`` characters together."""

    def __init__(self, stream: TextIO, file: Path) -> None:
        self.stream, self.file = stream, file
        self.number = 0  # of the last line
        self.begin()

    def begin(self) -> None:
        """Begin a row with the next line."""
        self.first, self.left = self.number + 1, ROW

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self.stream.readline(self.left + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self.left -= len(line)
        if self.left < 0:
            raise TaskError(
                f"{self.file}: line {self.first}: more than {ROW:,} characters in one row; divide it, or mend the file"
            )
        return line


def _json(file: Path) -> Iterator[Located]:
    """One object per line, or one array of objects."""
    with file.open(encoding="utf-8-sig", newline="\n") as stream:
        array = stream.read(1 << 16).lstrip().startswith("[")
        stream.seek(0)
        if array:
            text = stream.read(ARRAY + 1)
            if len(text) > ARRAY:
                raise TaskError(f"{file}: an array of more than {ARRAY:,} characters; write one object per line")
            if text.count("{") + text.count("[") > OBJECTS:
                raise TaskError(f"{file}: an array with more than {OBJECTS:,} brackets; write one object per line")
            for place, value in enumerate(_parsed(text, str(file)), 1):
                yield f"{file}: entry {place}", _object(value, f"{file}: entry {place}")
            return
        lines = _Lines(stream, file)
        for line in lines:
            lines.begin()
            if line.strip():
                where = f"{file}: line {lines.number}"
                yield where, _object(_parsed(line, where), where)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("{") and error.pos >= len(text.rstrip()):
            raise TaskError(
                f"{where}: not valid JSON: the object does not end in this line; expected a whole object on each line, "
                "or one array of objects"
            ) from error
        raise TaskError(f"{where}: not valid JSON: {error.msg} (character {error.pos + 1})") from error
    except RecursionError as error:
        raise TaskError(f"{where}: not valid JSON: nested too deeply") from error
    except ValueError as error:  # a number that is too long
        raise TaskError(f"{where}: not valid JSON: {first_line(error)}") from error


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TaskError(f'{where}: expected an object such as {{"text": "...", "label": 1}}')
    return value


def _csv(file: Path) -> Iterator[Located]:
    """A header, then lines with as many fields, between commas; an empty field is a missing value."""
    return _fields(file, "quote fields that contain ,", strict=True)


def _tsv(file: Path) -> Iterator[Located]:
    """The same between tabs, without quoting, as GLUE has it."""
    return _fields(file, "no field may contain a tab", delimiter="\t", quoting=csv.QUOTE_NONE)


def _fields(file: Path, rule: str, **form: Any) -> Iterator[Located]:
    """Rows of a file of the ``form`` that ``csv.reader`` takes; rule: what to heed in it."""
    csv.field_size_limit(sys.maxsize)
    with file.open(encoding="utf-8-sig", newline="") as stream:
        lines = _Lines(stream, file)
        reader = csv.reader(lines, **form)
        header: list[str] = []
        try:
            for fields in reader:
                lines.begin()
                where = f"{file}: line {reader.line_num}"
                if not header:
                    header = fields
                    _check_distinct(header, where)
                    if len(header) == 1 and (other := next((sign for sign in ";\t" if sign in header[0]), "")):
                        name = {";": "semicolons", "\t": "tabs"}[other]
                        raise TaskError(
                            f"{where}: fields are separated by {name}: save it with commas, or with tabs as a .tsv file"
                        )
                elif fields and len(fields) != len(header):
                    raise TaskError(f"{where}: {len(fields)} fields, the header has {len(header)}; {rule}")
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
    paragraph: list[str] = []
    with file.open(encoding="utf-8-sig") as stream:
        lines = _Lines(stream, file)
        for line in lines:
            if line.strip():
                paragraph.append(line.strip())
            else:
                if paragraph:
                    yield f"{file}: line {lines.number - len(paragraph)}", {"text": "\n".join(paragraph)}
                paragraph = []
                lines.begin()
        if paragraph:
            yield f"{file}: line {lines.number + 1 - len(paragraph)}", {"text": "\n".join(paragraph)}


def _parquet(file: Path, columns: Sequence[str]) -> Iterator[Located]:
    """Rows, decoded a few at a time: a value that is stored once may stand in any number of them."""
    import pyarrow
    import pyarrow.parquet

    size = file.stat().st_size
    most = max(DECODED, RATIO * size)
    refused = (
        f"this file of {size:,} bytes decodes to more than {most:,}; write the rows to use to another file "
        "(--limit alone does not help: it chooses among all rows)"
    )
    place = held = 0
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            schema = table.schema_arrow
            _check_distinct(schema.names, str(file))
            known = set(columns) <= set(schema.names)  # otherwise the row shows which columns there are
            wanted = list(dict.fromkeys(columns if columns and known else schema.names))
            if not known:  # Python has no dates of some years, which are not asked for
                timeless = [name for name in wanted if not pyarrow.types.is_temporal(schema.field(name).type)]
                wanted = timeless or wanted
            for name in columns if known else ():
                if pyarrow.types.is_nested(kind := schema.field(name).type):
                    raise TaskError(f"{file}: column {name!r} holds {kind}; expected text or numbers")
            for group in range(table.num_row_groups):
                largest = _largest(table.metadata.row_group(group), wanted)
                if largest > most:
                    raise TaskError(f"{file}: {refused}")
                at_once = min(1024, max(1, BATCH // max(1, largest)))  # no value is longer than its column
                for batch in table.iter_batches(at_once, row_groups=[group], columns=wanted, use_threads=False):
                    for row in batch.to_pylist():
                        place += 1
                        held += PER_ROW + sum(len(value) for value in row.values() if isinstance(value, str | bytes))
                        if held > most:
                            raise TaskError(f"{file}: row {place}: {refused}")
                        yield f"{file}: row {place}", row if known else dict.fromkeys(schema.names) | row
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise TaskError(f"{file}: not valid Parquet: {first_line(error)}") from error
    except TaskError:
        raise
    except (ValueError, OverflowError) as error:
        raise TaskError(f"{file}: after row {place}: a value that cannot be used: {first_line(error)}") from error


def _largest(group: Any, columns: Sequence[str]) -> int:
    """Bytes of the largest of ``columns`` in a row group, uncompressed but as it is encoded."""
    parts = tuple(f"{name}." for name in columns)  # of lists and structures
    chunks = [group.column(index) for index in range(group.num_columns)]
    mine = [chunk for chunk in chunks if chunk.path_in_schema in columns or chunk.path_in_schema.startswith(parts)]
    return max((chunk.total_uncompressed_size for chunk in mine), default=0)
