"""The store of records: one file a cell, written whole, checked when read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor

from bench.plan import Cell
from tasks.digest import digest_of, digest_of_files
from tasks.files import TEMPORARY, locked, write_whole

Record = dict[str, Any]


class CorruptRecord(ValueError):
    """A record file that is not what was written."""


class Store:
    """Records below a folder: ``records/<cell>.json``, and ``.safetensors`` beside it with the outcomes."""

    def __init__(self, folder: Path):
        self.folder = folder / "records"

    def path(self, cell: Cell) -> Path:
        """Where the record of ``cell`` lies."""
        return self.folder / f"{cell.name}.json"

    def write(self, cell: Cell, record: Record, outcomes: Tensor | None) -> None:
        """Write a record, its outcomes (draws, levels, N) first: a record that is there is complete. Raises OSError."""
        path = self.path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            if outcomes is not None:
                content = save(
                    {"outcomes": np.packbits(outcomes.numpy(), axis=-1)}, {"examples": str(outcomes.shape[-1])}
                )
                write_whole(path.with_suffix(".safetensors"), content)
                record = record | {"outcomes": digest_of_files([path.with_suffix(".safetensors")])}
            record = record | {"digest": digest_of(record)}
            write_whole(path, _text(record).encode())
            if outcomes is None:
                path.with_suffix(".safetensors").unlink(missing_ok=True)

    def read(self, path: Path) -> Record:
        """The record at ``path``. Raises CorruptRecord where it, or what lies beside it, is not what was written."""
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            claimed = record.pop("digest")
            whole = claimed == digest_of(record)
            if whole and record["status"] == "done":
                whole = record["outcomes"] == digest_of_files([path.with_suffix(".safetensors")])
        except (ValueError, KeyError, AttributeError, TypeError, FileNotFoundError) as error:
            raise CorruptRecord(f"{path}: {type(error).__name__}: {error}") from error
        if not whole:
            raise CorruptRecord(f"{path}: the digest does not match the content")
        return record

    def all(self) -> Iterator[Record]:
        """Every record, in the order of their paths. Raises CorruptRecord."""
        for path in sorted(self.folder.glob("*/*/*.json")):
            yield self.read(path)

    def set_aside(self, path: Path) -> Path:
        """Move a corrupt record out of the way, keeping it; returns where it is now."""
        target = path.with_name(path.name + ".corrupt")
        path.replace(target)
        return target

    def clear_temporary(self) -> None:
        """Remove what killed writers left. A living one holds the lock while its temporary file is there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            for path in self.folder.rglob("*" + TEMPORARY):
                path.unlink()


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
