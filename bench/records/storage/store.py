"""The store of records: one JSON file per cell, written atomically, validated when read; its arrays lie beside it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from safetensors.numpy import save

from bench.records.arrays import ODD, decode_arrays
from bench.records.consistency import check_outcomes
from bench.records.errors import CorruptRecord, InputError, OtherProtocol, first_complaint
from bench.records.protocol import PROTOCOL
from bench.records.schema import RECORD, FinishedRecord, Record
from bench.records.storage.files import NotAFile, digest_of, is_left, locked, warn_once, write_together, write_whole
from bench.records.storage.packed import archive_of, contents, is_packed, read_stored

NAME = re.compile(r"seed(0|[1-9][0-9]*)\.json")  # as bench.suites.cells names a record; others may be a user's
CORRUPT = ".corrupt"  # with a number, after the name of a file that was set aside
INDEXED = 2000  # records that have an index; fewer are read in about a second


class Store:
    """The records in a folder: ``records/NAME.json``, each with its arrays beside it in ``NAME.safetensors``.

    NAME is the name of a cell, ``TASK.DATA.MODEL/METHOD/seedN``. Records are also read through symbolic links, but
    nothing is written, renamed or removed below a folder that is one: it may belong to another run. Where there is an
    archive of the folder (``bench.records.storage.packed``) and not the folder, records are read from it.
    """

    def __init__(self, folder: Path):
        self.folder = folder / "records"

    def path(self, name: str) -> Path:
        """The file of the record called ``name``, whether or not it exists."""
        return self.folder / f"{name}.json"

    def has(self, path: Path) -> bool:
        """Whether there is a record at ``path``, a file or packed."""
        return path.relative_to(self.folder).as_posix() in self._packed() or path.exists()

    def _packed(self) -> Mapping[str, bytes]:
        """The packed files by their paths below the folder; none where they are files."""
        return contents(archive_of(self.folder)) if is_packed(self.folder) else {}

    def write(self, name: str, record: Record, arrays: Mapping[str, np.ndarray] | None = None) -> None:
        """Write a record and its ``arrays``, so that a record that exists is always complete.

        ``arrays["outcomes"]``, (draws, levels, N) bool, is stored as bits. Raises OSError, or ValueError for a number
        in ``record`` that is not finite; the old record, if any, then stays as it was. Raises InputError as
        ``check_own`` does.
        """
        path = self.path(name)
        self.check_own(path)
        beside = path.with_suffix(".safetensors")
        files: dict[Path, bytes] = {}
        content = _content(record)
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
        """Replace a record by one with the same arrays.

        Raises what ``write`` does, and CorruptRecord where the record there is not one of these arrays any more, as
        another run has replaced it since it was read; it then stays.
        """
        path = self.path(name)
        self.check_own(path)
        content = json.loads(_text(_content(record)))
        with locked(self.folder):
            there = self._read(path)
            if not isinstance(there, FinishedRecord) or (there.key, there.outcomes) != (record.key, record.outcomes):
                raise CorruptRecord(f"{path}: another run has replaced it")
            write_whole(path, _text(content | {"digest": digest_of(content)}).encode())

    def read(self, path: Path) -> Record:
        """The record at ``path``, validated.

        Raises CorruptRecord if it or its arrays are not what was written, OtherProtocol if it was made under another
        protocol.
        """
        try:
            with self.reading():
                return self._read(path)
        except FileNotFoundError as error:
            raise CorruptRecord(f"{path}: no such file") from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Inside, no writer replaces a record and its arrays. Raises FileNotFoundError without a folder of records."""
        with nullcontext() if is_packed(self.folder) else locked(self.folder, shared=True):
            yield

    def _read(self, path: Path) -> Record:
        arrays = b""
        try:
            text = read_stored(path)
            content = json.loads(text, parse_constant=_not_finite)
            whole = content.pop("digest") == digest_of(content)
            if whole and content["status"] == "done":
                arrays = read_stored(path.with_suffix(".safetensors"))
                if content["outcomes"] != sha256(arrays).hexdigest():
                    raise CorruptRecord(f"{path.with_suffix('.safetensors')}: its digest is not that in {path.name}")
        except NotAFile as error:
            raise CorruptRecord(str(error)) from error
        except RecursionError as error:
            raise CorruptRecord(f"{path}: too deeply nested") from error
        except (*ODD, FileNotFoundError) as error:
            raise CorruptRecord(f"{path}: {type(error).__name__}: {error}") from error
        if not whole:
            raise CorruptRecord(f"{path}: the digest does not match the content")
        if (protocol := _protocol(content)) != PROTOCOL:
            raise OtherProtocol(f"{path}: made under protocol {protocol}, this is protocol {PROTOCOL}")
        try:
            record = RECORD.validate_json(text, strict=True)
        except ValidationError as error:
            raise CorruptRecord(f"{path}: {first_complaint(error)}") from error
        if isinstance(record, FinishedRecord):
            shape = decode_arrays(arrays, path.with_suffix(".safetensors"))["outcomes"].shape
            try:
                check_outcomes(record.result, shape)
            except ValueError as error:
                raise CorruptRecord(f"{path}: the arrays beside it do not belong to it: {error}") from error
        return record

    def read_all(self, paths: Sequence[Path]) -> dict[Path, Record | CorruptRecord | OtherProtocol]:
        """Each of the records at ``paths`` as ``read`` returns it, or what it raises.

        Where there are many, those that were read before come from an index beside them (``storage.index``).
        """
        faults: dict[Path, CorruptRecord | OtherProtocol] = {}

        def read(path: Path) -> Record | None:
            try:
                return self.read(path)
            except (CorruptRecord, OtherProtocol) as error:
                faults[path] = error
                return None

        if len(paths) < INDEXED or is_packed(self.folder):
            found = {path: record for path in paths if (record := read(path))}
        else:
            from bench.records.storage.index import read_many  # loads pyarrow

            found = read_many(self.folder, paths, read)
        return {path: found.get(path) or faults[path] for path in paths}

    def paths(self) -> list[Path]:
        """The files of all records, sorted.

        What is no file, such as a pipe, and what has another name, such as a copy of a record, is named and skipped.
        Raises OSError, which names the folder, where one cannot be read.
        """
        if packed := self._packed():
            return sorted(self.folder / name for name in packed if NAME.fullmatch(Path(name).name))
        records = []
        folders = [self.folder] if self.folder.is_dir() else []
        for _ in ("TASK", "METHOD"):
            folders = [each for folder in folders for each in folder.iterdir() if each.is_dir()]
        for path in sorted(path for folder in folders for path in folder.iterdir() if path.name.endswith(".json")):
            if not NAME.fullmatch(path.name):
                warn_once(f"skipped, as its name is not that of a record, seedN.json: {path}")
            elif not path.is_file():
                warn_once(f"skipped, as it is not a file: {path}")
            else:
                records.append(path)
        return records

    def link_above(self, path: Path) -> Path | None:
        """The first folder that the record at ``path`` lies in, from ``records`` on, that is a symbolic link."""
        folders = [folder for folder in reversed(path.parents) if folder.is_relative_to(self.folder)]
        return next((folder for folder in folders if folder.is_symlink()), None)

    def check_own(self, *paths: Path) -> None:
        """Raise InputError where records are packed, or ``paths`` are or would be below a file or symbolic link."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(
                f"{self.folder}: a file, where the folder of records should be: move it away, or give another folder "
                "by --out"
            )
        if is_packed(self.folder):
            raise InputError(
                f"{archive_of(self.folder)}: the run's records are packed, and nothing is written there: give another "
                f"folder by --out, or unpack them by `headbench unpack {self.folder.parent}`"
            )
        if link := next(filter(None, map(self.link_above, paths)), None):
            raise InputError(
                f"{link}: a symbolic link, to {link.readlink()}: a run writes only below its own folder; remove the "
                "link, or give another folder by --out"
            )

    def set_aside(self, path: Path) -> Path | None:
        """Rename a corrupt record and its arrays, so that they are kept but no longer read; returns its new path.

        Their new names are free ones, with the same number at the end. None if it is gone, or is whole: another
        run has set it aside or replaced it since it was found. Raises InputError as ``check_own`` does.
        """
        self.check_own(path)
        with locked(self.folder):
            beside, number = path.with_suffix(".safetensors"), 1
            while any(os.path.lexists(_aside(each, number)) for each in (path, beside)):
                number += 1
            try:
                if not path.exists():
                    return None
                self._read(path)
            except OtherProtocol:
                return None
            except CorruptRecord:
                for each in (path, beside):
                    with suppress(FileNotFoundError):
                        each.replace(_aside(each, number))
                return _aside(path, number)
            return None

    def clear_temporary(self) -> None:
        """Remove the temporary files of killed writers; a running writer holds the lock while it has any."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            for folder, _, names in os.walk(self.folder):  # follows no symbolic links
                for path in (Path(folder) / name for name in names):
                    if is_left(path):
                        path.unlink()


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}{CORRUPT}{number}")


def _not_finite(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _protocol(content: dict[str, Any]) -> Any:
    cell = content.get("cell")
    return cell.get("protocol") if isinstance(cell, dict) else None


def _content(record: Record) -> dict[str, Any]:
    """What is written of a record: all but the digest, and fields with the values that they have by default."""
    return {"status": record.status} | record.model_dump(exclude={"digest"}, exclude_defaults=True)


def _text(content: Mapping[str, Any]) -> str:
    """JSON with one line per top-level field, which keeps diffs of committed records readable, and no other spaces."""
    inside = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {inside(part)}" for key, part in content.items()) + "\n}\n"
