"""The folder that a report is written to: nothing but files that a report wrote there is ever replaced or removed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath

from bench.records.errors import InputError
from bench.records.storage.files import is_left, locked, read_file, temporary, write_whole
from bench.records.storage.packed import archive_of
from bench.records.storage.store import Store
from bench.report.files import Files

MANIFEST = "report-files.json"  # in the folder: the digest of each file of the report, by its path
Digests = dict[str, set[str]]  # what a file of the report may be, by path; two where writing was cut short
ELSEWHERE = "give another folder by --out"


def check_place(out: Path, run: Path) -> None:
    """Raise InputError where ``out`` is no place for a report of the records in ``run``.

    It must be new, empty or an earlier report, and must not be, hold or lie among records, of this run or of another;
    symbolic links are followed on both sides.
    """
    place = out.resolve()
    records = Store(run)
    own = {
        records.folder,
        *(folder for path in records.paths() for folder in (*path.parents[:2], *_target(path))),
    }
    for folder in sorted(own):
        _check_apart(out, place, folder.resolve())
    if place.exists() and not place.is_dir():
        raise InputError(f"{out}: not a folder: {ELSEWHERE}")
    read_manifest(out)
    around = [folder / records.folder.name for folder in place.parents]
    for folder in (*filter(place.is_relative_to, around), *_below(place, records.folder.name)):
        if next(folder.glob("*/*/*.json"), None) or archive_of(folder).exists():
            _check_apart(out, place, folder)


def put(files: Files, out: Path) -> list[str]:
    """Write ``files`` to ``out``, in place of those of an earlier report, which the manifest there names.

    Returns the paths of other files there, which stay: no report wrote them, or they were changed since. Raises
    InputError, with nothing written, where one of those is in the way.
    """
    place = out.resolve()
    former = read_manifest(out)
    for name in (*files, MANIFEST):
        _check_free(out, place, name, former)
    place.mkdir(parents=True, exist_ok=True)
    with locked(place):
        new = {name: sha256(content).hexdigest() for name, content in files.items()}
        _note(place, new, former)  # if writing is cut short, both reports' files are known as such
        for name in former.keys() - files.keys():
            if _is_ours(place, name, former):
                (place / name).unlink()
        for name, content in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            if not _is_ours(place, name, {name: {new[name]}}):
                write_whole(place / name, content)
        for name in {**former, **new}:
            if not _is_linked(place, name):
                if is_left(temporary(place / name)):  # of a report that was cut short
                    temporary(place / name).unlink()
                for folder in PurePosixPath(name).parents[:-1]:
                    with suppress(OSError):  # not empty, or gone
                        (place / folder).rmdir()
        _note(place, new, {})
    return sorted(name for name in _names(place) if name not in files and name != MANIFEST)


def read_manifest(out: Path) -> Digests:
    """The files of the report in ``out``; none where there is no such folder, or an empty one.

    Raises InputError for a folder with other files, or whose manifest is damaged.
    """
    place = out.resolve()
    manifest = place / MANIFEST
    if not manifest.exists():
        if place.is_dir() and any(place.iterdir()):
            raise InputError(f"{out}: not empty, and not a report (no {MANIFEST} in it): {ELSEWHERE}")
        return {}
    found: Digests = {}
    try:
        content = json.loads(read_file(manifest))
        for files in (content["files"], content["earlier files"]):
            for name, digests in files.items():
                if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                    raise ValueError(f"{name} is not in the folder")
                found.setdefault(name, set()).update(digests)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{manifest}: not the files of a report ({error}): {ELSEWHERE}") from error
    return found


def _check_apart(out: Path, place: Path, records: Path) -> None:
    for relation, true in (
        ("is a folder of records", place == records),
        (f"holds the records in {records}", place in records.parents),
        (f"lies among the records in {records}", records in place.parents),
    ):
        if true:
            raise InputError(f"--out {out}: {relation}, so no report is written there: {ELSEWHERE}")


def _target(record: Path) -> tuple[Path, ...]:
    """The folder of the file that a symbolic link in the place of a record leads to; nothing for a file."""
    return (record.resolve().parent,) if record.is_symlink() else ()


def _below(place: Path, name: str) -> Iterator[Path]:
    """Folders called ``name`` in ``place`` or below."""
    for folder, folders, _ in os.walk(place):
        if name in folders:
            yield Path(folder) / name


def _check_free(out: Path, place: Path, name: str, former: Digests) -> None:
    """Raise InputError where ``name`` cannot be written in ``place`` without harm to what is not a report's."""
    for folder in PurePosixPath(name).parents[:-1]:
        if os.path.lexists(place / folder) and ((place / folder).is_symlink() or not (place / folder).is_dir()):
            raise InputError(f"{out / folder}: not a folder of a report: move it away, or {ELSEWHERE}")
    if name != MANIFEST and os.path.lexists(place / name) and not _is_ours(place, name, former):
        why = "changed since a report wrote it" if name in former else "not written by a report"
        raise InputError(f"{out / name}: {why}: move it away, or {ELSEWHERE}")


def _is_linked(place: Path, name: str) -> bool:
    """Whether a folder in ``place`` on the way to ``name`` is a symbolic link."""
    return any((place / folder).is_symlink() for folder in PurePosixPath(name).parents[:-1])


def _is_ours(place: Path, name: str, digests: Digests) -> bool:
    """Whether ``name`` in ``place`` is a file with one of these digests, and neither it nor its folder is a link."""
    path = place / name
    if _is_linked(place, name) or path.is_symlink() or not path.is_file():
        return False
    return sha256(read_file(path)).hexdigest() in digests.get(name, ())


def _note(place: Path, files: dict[str, str], former: Digests) -> None:
    """Write the manifest."""
    content = {
        "files": {name: [digest] for name, digest in sorted(files.items())},
        "earlier files": {name: sorted(digests) for name, digests in sorted(former.items())},
    }
    write_whole(place / MANIFEST, (json.dumps(content, indent=1) + "\n").encode())


def _names(place: Path) -> Iterator[str]:
    """Files in ``place``, with the folders in it that they are in."""
    for folder, folders, names in os.walk(place):
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        yield from ((Path(folder) / name).relative_to(place).as_posix() for name in (*names, *links))
