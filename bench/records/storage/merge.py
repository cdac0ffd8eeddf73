"""Runs of several machines or people in one folder: each cell once, and no two results for one key."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from bench.records.errors import CorruptRecord, InputError, OtherProtocol
from bench.records.schema import RECORD, FinishedRecord, Record
from bench.records.storage.files import digest_of, folders_above, locked, naming, temporary
from bench.records.storage.names import is_own_place
from bench.records.storage.packed import read_stored
from bench.records.storage.store import Store

ELSEWHERE = "give a new or empty folder"


@dataclass(frozen=True)
class Source:
    """A valid record of one of the folders. result: digest of what it found; empty where the cell failed."""

    folder: Path
    path: Path
    key: str
    digest: str
    outcomes: str
    result: str
    timed: int  # how many kinds of times it has: of a forward pass, and of the generation of text
    own_place: bool  # where a run looks for it, and no copy under another name

    @classmethod
    def of(cls, folder: Path, path: Path, record: Record) -> Source:
        found, outcomes, timed = "", "", 0
        if isinstance(record, FinishedRecord):
            outcomes, measured = record.outcomes, record.measured
            timed = (measured.latency is not None) + (measured.generation is not None)
            found = digest_of([record.result.model_dump(mode="json"), outcomes])
        return cls(folder, path, record.key, record.digest, outcomes, found, timed, is_own_place(path, record))

    @property
    def name(self) -> str:
        """The name of the cell."""
        return self.path.relative_to(Store(self.folder).folder).with_suffix("").as_posix()

    @property
    def rank(self) -> tuple[bool, int, bool]:
        """Larger for the record to keep: one with a result, of these one with most times, then one in its own place."""
        return bool(self.result), self.timed, self.own_place


@dataclass
class Merged:
    """What became of the records of all folders."""

    kept: list[Source] = field(default_factory=list)
    duplicates: list[Source] = field(default_factory=list)  # another record of the cell is kept
    corrupt: list[tuple[Path, str]] = field(default_factory=list)  # folder, and what is wrong with which file
    other_protocol: list[Path] = field(default_factory=list)  # the folder of each


def merge(folders: Sequence[Path], out: Path) -> Merged:
    """Copy the records of ``folders`` to ``out``, a new or empty folder: all that are valid, each cell once.

    Two records of one key must have the same result and arrays; times, provenance and the way in which a cell was asked
    for may differ. Kept is the first with most times, or the first with a result, or the first. Raises InputError, with
    nothing written, where they have not, where two records of one name have other keys, where a folder has no records,
    and where ``out`` is no place for them.
    """
    _check_places(folders, out)
    merged = _choose(folders)
    if not merged.kept:
        raise InputError("no valid record in any of the folders, so there is nothing to merge")
    with new_records(out) as place:
        for each in merged.kept:
            for suffix, content in files_of(each).items():
                put(place / f"{each.name}{suffix}", content)
    return merged


def _check_places(folders: Sequence[Path], out: Path) -> None:
    if len(folders) < 2:
        raise InputError(f"expected two folders or more to merge, found {', '.join(map(str, folders)) or 'none'}")
    places = [folder.resolve() for folder in folders]
    for folder, place in zip(folders, places, strict=True):
        if places.count(place) > 1:
            raise InputError(f"{folder}: named twice")
        if out.resolve().is_relative_to(records := Store(place).folder.resolve()):
            raise InputError(f"--out {out}: lies among the records in {records}: {ELSEWHERE}")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: not a folder: {ELSEWHERE}")
    if out.is_dir() and any(path != _unfinished(out) for path in out.iterdir()):
        raise InputError(f"--out {out}: not empty: {ELSEWHERE}")


def _choose(folders: Sequence[Path]) -> Merged:
    merged = Merged()
    by_name: dict[str, Source] = {}
    by_key: dict[str, Source] = {}
    for folder in folders:
        store = Store(folder)
        paths = store.paths()
        if not paths:
            raise InputError(f"{folder}: no records there (expected {store.folder}/TASK.DATA.MODEL/METHOD/seedN.json)")
        for path in paths:
            try:
                new = Source.of(folder, path, store.read(path))
            except OtherProtocol:
                merged.other_protocol.append(folder)
                continue
            except CorruptRecord as error:
                merged.corrupt.append((folder, str(error)))
                continue
            keep = new
            if twin := by_name.get(new.name) or by_key.get(new.key):
                _check_fit(twin, new)
                keep, drop = (new, twin) if new.rank > twin.rank else (twin, new)
                merged.duplicates.append(drop)
                by_name.pop(twin.name)
            by_name[keep.name] = keep
            if keep.key:
                by_key[keep.key] = keep
    merged.kept = list(by_name.values())
    return merged


def _check_fit(one: Source, other: Source) -> None:
    """Raise InputError where not both records of a cell can be right."""
    if one.key != other.key:
        raise InputError(
            f"{one.path} and {other.path}: the same cell with other keys: it was run with other data, weights, options "
            "or code; remove one of the two"
        )
    if one.result and other.result and one.result != other.result:
        raise InputError(
            f"{one.path} and {other.path}: the same key with other results ({_differences(one, other)}); remove one of "
            "the two"
        )


def _differences(one: Source, other: Source) -> str:
    """The fields of the results in which two records differ."""
    a, b = (RECORD.validate_json(read_stored(each.path)) for each in (one, other))
    assert isinstance(a, FinishedRecord) and isinstance(b, FinishedRecord)
    results = a.result.model_dump(), b.result.model_dump()
    differing = sorted(name for name in results[0] if results[0][name] != results[1][name])
    return ", ".join([*differing, *(["arrays"] if a.outcomes != b.outcomes else [])])


def _unfinished(out: Path) -> Path:
    """The folder in ``out`` that records are copied to before it gets its name."""
    return temporary(out / "records")


def put(path: Path, content: bytes) -> None:
    """Write a file of a record to a folder that is being filled. Raises OSError, which names ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path):
        path.write_bytes(content)


@contextmanager
def new_records(out: Path, flag: str = "--out ") -> Iterator[Path]:
    """A folder to fill, which becomes ``out``'s folder of records at the end, or goes again where that fails.

    Raises InputError where another process on this machine was quicker.
    """
    with folders_above(_unfinished(out), out, flag), locked(out):
        place, records = _unfinished(out), Store(out).folder
        if os.path.lexists(records):
            raise InputError(f"{records}: exists already; another process has just written it")
        try:
            shutil.rmtree(place, ignore_errors=True)  # of a process that was killed
            place.mkdir()
            yield place
            place.rename(records)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise


def files_of(source: Source) -> dict[str, bytes]:
    """A record and its arrays, by suffix. Raises InputError where they are no longer what was read before."""
    contents = {}
    with Store(source.folder).reading():
        contents[".json"] = read_stored(source.path)
        if source.result:
            contents[".safetensors"] = read_stored(source.path.with_suffix(".safetensors"))
    text, *arrays = contents.values()
    if json.loads(text)["digest"] != source.digest or any(sha256(a).hexdigest() != source.outcomes for a in arrays):
        raise InputError(f"{source.path}: was changed meanwhile, by a run into that folder: wait until it has ended")
    return contents
