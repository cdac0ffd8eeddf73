"""An index of many records: what was validated once is not validated again while its files stay the same.

The index is a Parquet file, before its digest, with a row for each record and a column for each field, as JSON. A row
holds while size, times and inode of the record and of its arrays are those from before they were read, the whole index
while the code is the same that reads and checks records. A record that is not valid is never in it, so it is read, and
refused, each time. The file can be deleted at any time; where it is damaged or cannot be written, records are read
without it.

Equal parts of records, such as the request for a task, are decoded once and shared, so that many fit into memory.
"""

from __future__ import annotations

import gc
import io
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, TypeAdapter

from bench.records.measured import Measured
from bench.records.result import Result
from bench.records.schema import CellInfo, FailedRecord, FinishedRecord, Record
from bench.records.storage.files import locked, read_file, write_whole

NAME = "index.cache"  # in the folder of records: a Parquet file, and its SHA-256
DIGEST = 32  # bytes
SETTLED = 2.0  # seconds after which a change gives a file another time, even by a coarse clock
ROWS = 512  # records that are handled together
SHARED = 512  # values of a field that are kept to be shared
PARTS: dict[str, type[BaseModel]] = {"cell": CellInfo, "result": Result, "measured": Measured}
KINDS: dict[str, type[BaseModel]] = {"done": FinishedRecord, "failed": FailedRecord}
FIELDS: dict[str, TypeAdapter] = {
    **{
        f"{part}.{name}": TypeAdapter(field.rebuild_annotation())
        for part, model in PARTS.items()
        for name, field in model.model_fields.items()
    },
    **{
        name: TypeAdapter(field.rebuild_annotation())
        for model in KINDS.values()
        for name, field in model.model_fields.items()
        if name not in PARTS
    },
    "status": TypeAdapter(str),
}
MISSING = object()
NONE: Mapping[str, Any] = {}
Fields = Sequence[tuple[str, list[Any]]]  # names, and the values of all rows


class Stamp(NamedTuple):
    """What tells a record and its arrays from other files: in ``text`` all of it, and when the last one changed."""

    text: str
    changed: float


def read_many(folder: Path, paths: Sequence[Path], read: Callable[[Path], Record | None]) -> dict[Path, Record]:
    """The valid ones of the records at ``paths``, below ``folder``, in that order.

    They are those of the index in ``folder`` or, where its rows do not hold, what ``read`` returns: None for a record
    that is not valid. The index is then written anew.
    """
    begin = time.time()
    names = {_name(folder, path): path for path in paths}
    stamps = {name: _stamp(path) for name, path in names.items()}
    index = _load(folder / NAME)
    found = _stamps(index) if index else {}
    holds = {name for name, text in found.items() if name in stamps and stamps[name].text == text}
    left = [name for name in names if name not in holds]
    writer = _Writer() if left or len(holds) < len(found) else None
    decode = _Decoder()
    records: dict[str, Record] = {}
    with _no_search_for_cycles():
        for batch in _batches(index, holds, left, stamps, lambda name: read(names[name])):
            records.update(decode(batch))
            if writer:
                writer.add(batch, {name for name, each in stamps.items() if each.changed < begin - SETTLED})
    if writer and writer.stamps != found:
        writer.write(folder)
    return {path: records[name] for name, path in names.items() if name in records}


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Make many objects without Python's search for unused cycles, which looks at all of them again and again.

    There are none in records, so what there is at the end is never looked at again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def _name(folder: Path, path: Path) -> str:
    return json.dumps(path.relative_to(folder).as_posix())  # which is ASCII, whatever is in the name of a file


def _stamp(path: Path) -> Stamp:
    parts, changed = [], 0.0
    for file in (path, path.with_suffix(".safetensors")):
        try:
            stat = file.stat()
        except OSError:
            parts.append("none")
        else:
            parts.append(f"{stat.st_dev} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}")
            changed = max(changed, stat.st_mtime, stat.st_ctime)
    return Stamp("; ".join(parts), changed)


@cache
def _version() -> bytes:
    """Digest of the code that reads and checks records."""
    sources = sorted(Path(__file__).parents[1].rglob("*.py"))
    return sha256(b"".join(source.read_bytes() for source in sources)).hexdigest().encode()


@cache
def _schema() -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in ("name", "stamp", *FIELDS)], {b"version": _version()})


def _load(path: Path) -> pq.ParquetFile | None:
    """The index at ``path``; None where there is none, it is damaged, or other code wrote it."""
    with suppress(OSError, ValueError):  # pyarrow's own errors are kinds of these
        content = memoryview(read_file(path))
        if content[-DIGEST:] == sha256(content[:-DIGEST]).digest():  # else pyarrow may crash
            index = pq.ParquetFile(pa.BufferReader(pa.py_buffer(content[:-DIGEST])))
            if index.schema_arrow.equals(_schema(), check_metadata=True):
                return index
    return None


def _rows(index: pq.ParquetFile, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    return index.iter_batches(ROWS, columns=columns, use_threads=False)


def _stamps(index: pq.ParquetFile) -> dict[str, str]:
    batches = _rows(index, ["name", "stamp"])
    return {name: stamp for batch in batches for name, stamp in zip(*batch.to_pydict().values(), strict=True)}


def _batches(
    index: pq.ParquetFile | None,
    holds: set[str],
    left: Sequence[str],
    stamps: dict[str, Stamp],
    read: Callable[[str], Record | None],
) -> Iterator[pa.RecordBatch]:
    """The rows of the index that hold, and those of the records that are ``left`` to read."""
    for batch in _rows(index) if index else ():
        yield batch.filter(pa.array([name in holds for name in batch["name"].to_pylist()], pa.bool_()))
    for start in range(0, len(left), ROWS):
        columns: dict[str, list[str | None]] = {name: [] for name in _schema().names}
        for name in left[start : start + ROWS]:
            if record := read(name):
                row = {"name": name, "stamp": stamps[name].text, **_encoded(record)}
                for column, values in columns.items():
                    values.append(row.get(column))
        yield pa.RecordBatch.from_pydict(columns, _schema())


def _encoded(record: Record) -> dict[str, str]:
    """The fields of a record as JSON, by the names of their columns; without those that its file does not have."""
    content = record.model_dump(exclude_unset=True)
    for part in PARTS.keys() & content.keys():
        content |= {f"{part}.{name}": value for name, value in content.pop(part).items()}
    return {name: json.dumps(value) for name, value in content.items()}


class _Decoder:
    """Records from rows. Values that were decoded before are shared."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = defaultdict(dict)
        self._given: dict[tuple[str, ...], set[str]] = {}

    def __call__(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Record]]:
        columns = {name: self._values(name, batch[name]) for name in FIELDS}
        own = {
            part: [(name, columns[f"{part}.{name}"]) for name in model.model_fields] for part, model in PARTS.items()
        }
        for place, name in enumerate(batch["name"].to_pylist()):
            kind = KINDS[columns["status"][place]]
            parts = {part: self._made(PARTS[part], place, own[part]) for part in PARTS if part in kind.model_fields}
            others = [(field, columns[field]) for field in kind.model_fields if field not in parts]
            yield name, self._made(kind, place, others, parts)

    def _values(self, name: str, column: pa.Array) -> list[Any]:
        """The values of a column, MISSING where a record does not have the field."""
        encoded = column.dictionary_encode()
        known, values = self._known[name], []
        for text in encoded.dictionary.to_pylist():
            value = known.get(text, MISSING)
            if value is MISSING:
                value = FIELDS[name].validate_json(text, strict=True)
                if len(known) < SHARED:
                    known[text] = value
            values.append(value)
        return [MISSING if place is None else values[place] for place in encoded.indices.to_pylist()]

    def _made(self, model: type[BaseModel], place: int, fields: Fields, parts: Mapping[str, Any] = NONE) -> Any:
        """A part of a record, or the whole, which was validated before."""
        given = {**parts} | {name: value for name, values in fields if (value := values[place]) is not MISSING}
        names = self._given.setdefault(tuple(given), set(given))
        return model.model_construct(_fields_set=names, **given)


class _Writer:
    """Collects the rows of a new index."""

    def __init__(self) -> None:
        self.stamps: dict[str, str] = {}
        self._content = io.BytesIO()
        self._file = pq.ParquetWriter(self._content, _schema(), compression="zstd")

    def add(self, batch: pa.RecordBatch, settled: set[str]) -> None:
        """Take the rows that are ``settled``: a file that just changed may change again without another time."""
        some = batch.filter(pa.array([name in settled for name in batch["name"].to_pylist()], pa.bool_()))
        self.stamps |= dict(zip(some["name"].to_pylist(), some["stamp"].to_pylist(), strict=True))
        self._file.write_batch(some)

    def write(self, folder: Path) -> None:
        """Put the index into ``folder``, if that can be written and is no link, which may lead to another run."""
        self._file.close()
        if not folder.is_symlink():
            with suppress(OSError), locked(folder):
                self._content.write(sha256(self._content.getbuffer()).digest())
                write_whole(folder / NAME, self._content.getvalue())
