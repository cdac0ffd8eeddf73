"""The store of records: one file a cell, written whole, checked when read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor

from bench.errors import InputError
from bench.plan import PROTOCOL, Cell
from bench.record_shape import check_shape
from tasks.digest import digest_of
from tasks.files import TEMPORARY, locked, write_together

Record = dict[str, Any]
TaskKey = tuple[str, str, str]  # task, data, model


class CorruptRecord(ValueError):
    """A record file that is not what was written."""


class Store:
    """Records below a folder: ``records/<cell>.json``, and ``.safetensors`` beside it with its arrays."""

    def __init__(self, folder: Path):
        self.folder = folder / "records"

    def path(self, cell: Cell) -> Path:
        """Where the record of ``cell`` lies."""
        return self.folder / f"{cell.name}.json"

    def write(self, cell: Cell, record: Record, arrays: Mapping[str, Tensor]) -> None:
        """Write a record and the ``arrays`` beside it, if there are any: a record that is there is complete.

        ``outcomes``, (draws, levels, N) bool, is stored in bits.

        Raises OSError, and ValueError for a number in ``record`` that is not finite; what was there then stays.
        """
        path = self.path(cell)
        beside = path.with_suffix(".safetensors")
        files: dict[Path, bytes] = {}
        if arrays:
            stored = {name: array.numpy() for name, array in arrays.items()}
            examples = {"examples": str(stored["outcomes"].shape[-1])}
            files[beside] = save(stored | {"outcomes": np.packbits(stored["outcomes"], axis=-1)}, examples)
            record = record | {"outcomes": sha256(files[beside]).hexdigest()}
        record = json.loads(_text(record))  # as it will be read: keys are text
        files[path] = _text(record | {"digest": digest_of(record)}).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            write_together(files)
            if not arrays:
                beside.unlink(missing_ok=True)

    def read(self, path: Path) -> Record:
        """The record at ``path``. Raises CorruptRecord where it, or what lies beside it, is not what was written."""
        try:
            with locked(self.folder, shared=True):  # a writer replaces two files
                return self._read(path)
        except FileNotFoundError as error:
            raise CorruptRecord(f"{path}: no such file") from error

    def _read(self, path: Path) -> Record:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            claimed = record.pop("digest")
            whole = claimed == digest_of(record)
            if whole and record["status"] == "done":
                whole = record["outcomes"] == sha256(path.with_suffix(".safetensors").read_bytes()).hexdigest()
        except (ValueError, KeyError, AttributeError, TypeError, FileNotFoundError) as error:
            raise CorruptRecord(f"{path}: {type(error).__name__}: {error}") from error
        if not whole:
            raise CorruptRecord(f"{path}: the digest does not match the content")
        if _protocol(record) == PROTOCOL:
            try:
                check_shape(record)
            except ValueError as error:
                raise CorruptRecord(f"{path}: {error}") from error
        return record

    def all(self) -> Iterator[Record]:
        """Every record, in the order of their paths. Raises CorruptRecord."""
        for path in self.paths():
            yield self.read(path)

    def paths(self) -> list[Path]:
        """Where there are records, sorted."""
        return sorted(self.folder.glob("*/*/*.json"))

    def set_aside(self, path: Path) -> Path:
        """Move a corrupt record out of the way, keeping it; returns where it is now."""
        target = path.with_name(path.name + ".corrupt")
        with locked(self.folder):
            try:
                self._read(path)  # another run may have set it aside, and made it anew, since it was found
            except CorruptRecord:
                with suppress(FileNotFoundError):
                    path.replace(target)
        return target

    def clear_temporary(self) -> None:
        """Remove what killed writers left. A living one holds the lock while its temporary file is there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            for path in self.folder.rglob("*" + TEMPORARY):
                path.unlink()


def task_key(record: Record) -> TaskKey:
    """Task, data and model of a record."""
    cell = record["cell"]
    return cell["task"], cell["data"], cell["model"]


def read_current(folder: Path) -> tuple[dict[Path, Record], int]:
    """Records in ``folder`` that were made under the current protocol, by their paths, and how many others there are.

    Raises InputError where there is none, or one is corrupt.
    """
    store = Store(folder)
    try:
        records = {path: store.read(path) for path in store.paths()}
    except CorruptRecord as error:
        raise InputError(f"corrupt record {error}; `run` sets it aside and makes it again") from error
    if not records:
        raise InputError(f"{folder}: no records there (expected {store.folder}/TASK/METHOD/SEED.json)")
    current = {path: record for path, record in records.items() if _protocol(record) == PROTOCOL}
    if not current:
        raise InputError(f"{folder}: its records were made under another protocol: `run` makes them anew")
    return current, len(records) - len(current)


def _protocol(record: Record) -> Any:
    cell = record.get("cell")
    return cell.get("protocol") if isinstance(cell, dict) else None


def _text(record: Record) -> str:
    """JSON with one line for each part of the record."""
    parts = (
        f"{json.dumps(key)}: {json.dumps(part, ensure_ascii=False, allow_nan=False)}" for key, part in record.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read_outcomes(path: Path) -> np.ndarray:
    """Outcomes (draws, levels, N) bool of the record at ``path``. Raises CorruptRecord."""
    try:
        content = path.with_suffix(".safetensors").read_bytes()
        packed = load(content)["outcomes"]
        size = int.from_bytes(content[:8], "little")
        examples = int(json.loads(content[8 : 8 + size])["__metadata__"]["examples"])
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise CorruptRecord(f"{path.with_suffix('.safetensors')}: {error}") from error
    return np.unpackbits(packed, axis=-1, count=examples).astype(bool)
