"""Put the records of a run into one file, and take them out of it."""

from __future__ import annotations

from pathlib import Path

from bench.records.errors import InputError
from bench.records.files import naming
from bench.records.merge import new_records
from bench.records.packed import archive_of, contents, is_packed, stored, write_archive
from bench.records.store import Store, read_current


def pack(run: Path) -> tuple[Path, int]:
    """Write the archive of the records in the folder ``run``; returns it and their number. The records stay.

    Corrupt records are named on standard error and left out, and so are those of other protocols. Raises InputError
    where there are no others, or they are packed already.
    """
    store = Store(run)
    archive = archive_of(store.folder)
    if is_packed(store.folder):
        raise InputError(f"{run}: its records are packed already, in {archive}")
    files = {}
    for path in read_current(run)[0]:
        with store.reading():
            for each in (path, path.with_suffix(".safetensors")):
                if each == path or each.exists():  # the record of a failure has no arrays
                    files[each.relative_to(store.folder).as_posix()] = stored(each)
    write_archive(archive, files)
    return archive, sum(name.endswith(".json") for name in files)


def unpack(run: Path) -> tuple[Path, int]:
    """Write the folder of records from the archive in ``run``; returns it and their number. The archive stays.

    Raises InputError where there is no archive, or there is a folder of records already.
    """
    records = Store(run).folder
    archive = archive_of(records)
    if not archive.exists():
        raise InputError(f"{run}: nothing to unpack (expected {archive})")
    if not is_packed(records):
        raise InputError(f"{records}: exists already; the records in {archive} would go there")
    files = contents(archive)
    with new_records(run) as place:
        for name, content in files.items():
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with naming(target):
                target.write_bytes(content)
    return records, sum(name.endswith(".json") for name in files)
