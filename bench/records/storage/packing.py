"""Put the records of a run into one file, and take them out of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.records.errors import InputError
from bench.records.storage.current import read_current
from bench.records.storage.files import locked
from bench.records.storage.merge import Source, files_of, new_records, put
from bench.records.storage.packed import archive_of, contents, is_packed, write_archive
from bench.records.storage.store import Store


@dataclass(frozen=True)
class Packed:
    """What was packed. other_protocol: number of records left out, as they were made under another protocol."""

    archive: Path
    records: int
    other_protocol: int


def pack(run: Path) -> Packed:
    """Write the archive of the records in the folder ``run``, which stay.

    Corrupt records are named on standard error and left out, and so are those of other protocols. Raises InputError
    where there are no others, they are packed already, or are too many for one file, and where the archive that is
    there is none, or has records that the folder lacks, has under another key, as failed or without their timings, so
    that no result is lost.
    """
    archive = archive_of(Store(run).folder)
    if is_packed(Store(run).folder):
        raise InputError(f"{run}: its records are packed already, in {archive}")
    records, others = read_current(run)
    sources = [Source.of(run, path, record) for path, record in records.items()]
    files = {f"{each.name}{suffix}": content for each in sources for suffix, content in files_of(each).items()}
    with locked(run):
        if archive.exists() and (lost := _lost(contents(archive), files)):
            raise InputError(
                f"{archive}: would lose what it holds and the folder of records does not, such as {lost}: move it away"
            )
        write_archive(archive, files)
    return Packed(archive, len(sources), others)


def _lost(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> str:
    """The first file of ``old`` whose result is not in ``new``; empty if all are. Of files in archives, by name."""
    for name in sorted(old):
        if name not in new:
            return name
        if name.endswith(".json"):
            before, after = (_result(files[name]) for files in (old, new))
            if before.key is not None and (before.key != after.key or before.timed - after.timed):
                return name
    return ""


class _Result(NamedTuple):
    """What a record has that cannot be seen again without running its cell. timed: names of its timings."""

    key: str | None
    timed: frozenset[str]


def _result(content: bytes) -> _Result:
    """Of the content of a record; without a key where there is none, as in one that failed or is damaged."""
    try:
        record = json.loads(content)
        done, measured = record["status"] == "done", record.get("measured") or {}
        timed = frozenset(name for name in ("latency", "generation") if measured.get(name))
        return _Result(record["key"], timed) if done else _Result(None, frozenset())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _Result(None, frozenset())


def unpack(run: Path) -> tuple[Path, int]:
    """Write the folder of records from the archive in ``run``; returns it and their number. The archive stays.

    Raises InputError where there is no archive, or there is a folder of records already.
    """
    records = Store(run).folder
    archive = archive_of(records)
    if not archive.exists():
        raise InputError(f"{run}: nothing to unpack (expected {archive})")
    if os.path.lexists(records):
        raise InputError(f"{records}: exists already; the records in {archive} would go there")
    files = contents(archive)
    with new_records(run, flag="") as place:
        for name, content in files.items():
            put(place / name, content)
    return records, sum(name.endswith(".json") for name in files)
