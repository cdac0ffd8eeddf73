"""The records of a folder that can be used: of the present protocol, not corrupt, one of each cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.records.errors import CorruptRecord, InputError, OtherProtocol
from bench.records.schema import FinishedRecord, Record
from bench.records.storage.files import warn_once
from bench.records.storage.names import is_own_place
from bench.records.storage.packed import archive_of, is_packed
from bench.records.storage.store import Store


def read_current(folder: Path) -> tuple[dict[Path, Record], int]:
    """The records in ``folder`` made under the current protocol, by path, and the number of those of other protocols.

    A corrupt one is named on standard error and left out, as is a second one of a cell, such as in a copied folder.
    Raises InputError if no record is left.
    """
    store = Store(folder)
    paths = store.paths()
    records: dict[Path, Record] = {}
    corrupt = 0
    for path, found in store.read_all(paths).items():
        if isinstance(found, CorruptRecord):
            corrupt += 1
            remedy = "" if is_packed(store.folder) else ", which `headbench run` sets aside and makes again"
            warn_once(f"left out, a corrupt record{remedy}: {found}")
        elif not isinstance(found, OtherProtocol):
            records[path] = found
    copies = _copies(records)
    for path, first in copies.items():
        warn_once(f"left out, as {first} is of the same cell: {path}")
        del records[path]
    if not paths:
        if (archive := archive_of(store.folder)).exists():
            raise InputError(f"{store.folder}: no records there; to read those of {archive}, remove that empty folder")
        raise InputError(
            f"{folder}: no records there (expected {store.folder}/TASK.DATA.MODEL/METHOD/seedN.json); give the folder "
            "of a run, as `headbench run --out` wrote it"
        )
    if not records:
        what = "are corrupt" if corrupt == len(paths) else "were made under another protocol"
        packed = f" once `headbench unpack {folder}` has unpacked them" if is_packed(store.folder) else ""
        raise InputError(f"{folder}: its records {what}; `headbench run` makes them again{packed}")
    return records, len(paths) - len(records) - corrupt - len(copies)


def _copies(records: Mapping[Path, Record]) -> dict[Path, Path]:
    """Records of a cell that another is of as well, each with that: in its own place, or of the shortest name."""
    first: dict[tuple[Any, ...], Path] = {}
    found = {}
    for path in sorted(records, key=lambda path: (not is_own_place(path, records[path]), len(str(path)), path)):
        record = records[path]
        if (known := first.setdefault((record.task, record.cell.label, record.cell.seed), path)) != path:
            found[path] = known
    return found


def finished(records: Mapping[Path, Record]) -> Iterator[FinishedRecord]:
    """The records that have a result."""
    return (record for record in records.values() if isinstance(record, FinishedRecord))
