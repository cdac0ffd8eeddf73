"""The store of records: one JSON file per cell, written atomically, validated when read; its arrays lie beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load, save

from bench.records.errors import InputError
from bench.records.files import TEMPORARY, digest_of, locked, write_together, write_whole
from bench.records.protocol import PROTOCOL
from bench.records.schema import RECORD, FinishedRecord, Record


class CorruptRecord(InputError):
    """A record file that is not what was written."""


class OtherProtocol(ValueError):
    """A record that was made under another protocol; it may not even have the fields of this one."""


class Store:
    """The records in a folder: ``records/NAME.json``, each with its arrays beside it in ``NAME.safetensors``.

    NAME is the name of a cell, ``TASK/METHOD/SEED``.
    """

    def __init__(self, folder: Path):
        self.folder = folder / "records"

    def path(self, name: str) -> Path:
        """The file of the record called ``name``, whether or not it exists."""
        return self.folder / f"{name}.json"

    def write(self, name: str, record: Record, arrays: Mapping[str, np.ndarray] | None = None) -> None:
        """Write a record and its ``arrays``, so that a record that exists is always complete.

        ``arrays["outcomes"]``, (draws, levels, N) bool, is stored as bits. Raises OSError, or ValueError for a number
        in ``record`` that is not finite; the old record, if any, then stays as it was.
        """
        path = self.path(name)
        beside = path.with_suffix(".safetensors")
        files: dict[Path, bytes] = {}
        content = record.model_dump(exclude={"digest"})
        if arrays:
            examples = {"examples": str(arrays["outcomes"].shape[-1])}
            files[beside] = save({**arrays, "outcomes": np.packbits(arrays["outcomes"], axis=-1)}, examples)
            content["outcomes"] = sha256(files[beside]).hexdigest()
        content = json.loads(_text(content))  # as it will be read: the keys of dictionaries are strings
        files[path] = _text(content | {"digest": digest_of(content)}).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            write_together(files)
            if not arrays:
                beside.unlink(missing_ok=True)

    def update(self, name: str, record: FinishedRecord) -> None:
        """Replace a record by one with the same arrays. Raises OSError and ValueError, as ``write`` does."""
        content = json.loads(_text(record.model_dump(exclude={"digest"})))
        with locked(self.folder):
            write_whole(self.path(name), _text(content | {"digest": digest_of(content)}).encode())

    def read(self, path: Path) -> Record:
        """The record at ``path``, validated.

        Raises CorruptRecord if it or its arrays are not what was written, OtherProtocol if it was made under another
        protocol.
        """
        try:
            with locked(self.folder, shared=True):  # a writer replaces two files
                return self._read(path)
        except FileNotFoundError as error:
            raise CorruptRecord(f"{path}: no such file") from error

    def _read(self, path: Path) -> Record:
        try:
            text = path.read_text(encoding="utf-8")
            content = json.loads(text)
            whole = content.pop("digest") == digest_of(content)
            if whole and content["status"] == "done":
                whole = content["outcomes"] == sha256(path.with_suffix(".safetensors").read_bytes()).hexdigest()
        except (ValueError, KeyError, AttributeError, TypeError, FileNotFoundError) as error:
            raise CorruptRecord(f"{path}: {type(error).__name__}: {error}") from error
        if not whole:
            raise CorruptRecord(f"{path}: the digest does not match the content")
        if (protocol := _protocol(content)) != PROTOCOL:
            raise OtherProtocol(f"{path}: made under protocol {protocol}, this is protocol {PROTOCOL}")
        try:
            return RECORD.validate_json(text, strict=True)
        except ValidationError as error:
            raise CorruptRecord(f"{path}: {_first_complaint(error)}") from error

    def paths(self) -> list[Path]:
        """The files of all records, sorted."""
        return sorted(self.folder.glob("*/*/*.json"))

    def set_aside(self, path: Path) -> Path:
        """Rename a corrupt record, so that it is kept but no longer read; returns its new path."""
        target = path.with_name(path.name + ".corrupt")
        with locked(self.folder):
            try:
                self._read(path)  # another run may have replaced it since it was found
            except OtherProtocol:
                pass
            except CorruptRecord:
                with suppress(FileNotFoundError):
                    path.replace(target)
        return target

    def clear_temporary(self) -> None:
        """Remove the temporary files of killed writers; a running writer holds the lock while it has any."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            for path in self.folder.rglob("*" + TEMPORARY):
                path.unlink()


def read_current(folder: Path) -> tuple[dict[Path, Record], int]:
    """The records in ``folder`` made under the current protocol, by path, and the number of all others.

    Raises InputError if there are none, or one is corrupt.
    """
    store = Store(folder)
    records: dict[Path, Record] = {}
    paths = store.paths()
    for path in paths:
        try:
            records[path] = store.read(path)
        except OtherProtocol:
            continue
        except CorruptRecord as error:
            raise InputError(f"corrupt record {error}; `headbench run` sets it aside and makes it again") from error
    if not paths:
        raise InputError(f"{folder}: no records there (expected {store.folder}/TASK/METHOD/SEED.json)")
    if not records:
        raise InputError(f"{folder}: its records were made under another protocol; `headbench run` makes them again")
    return records, len(paths) - len(records)


def finished(records: Mapping[Path, Record]) -> Iterator[FinishedRecord]:
    """The records that have a result."""
    return (record for record in records.values() if isinstance(record, FinishedRecord))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of the record at ``path``, by name; ``outcomes`` is (draws, levels, N) bool. Raises CorruptRecord."""
    beside = path.with_suffix(".safetensors")
    try:
        content = beside.read_bytes()
        arrays = load(content)
        size = int.from_bytes(content[:8], "little")
        examples = int(json.loads(content[8 : 8 + size])["__metadata__"]["examples"])
        outcomes = np.unpackbits(arrays["outcomes"], axis=-1, count=examples).astype(bool)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise CorruptRecord(f"corrupt arrays {beside}: {error}") from error
    return arrays | {"outcomes": outcomes}


def read_outcomes(path: Path) -> np.ndarray:
    """Per-example outcomes of the record at ``path``, (draws, levels, N) bool. Raises CorruptRecord."""
    return read_arrays(path)["outcomes"]


def _protocol(content: dict[str, Any]) -> Any:
    cell = content.get("cell")
    return cell.get("protocol") if isinstance(cell, dict) else None


def _first_complaint(error: ValidationError) -> str:
    """The first field that is wrong and why: ``result.units: Field required``."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("done", "failed"))
    return f"{place or 'record'}: {first['msg']}"


def _text(content: Mapping[str, Any]) -> str:
    """JSON with one line per top-level field, which keeps diffs of committed records readable."""
    parts = (
        f"{json.dumps(key)}: {json.dumps(part, ensure_ascii=False, allow_nan=False)}" for key, part in content.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"
