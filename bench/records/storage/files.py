"""Files that are written completely or not at all, and locks that are released when their process ends."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from bench.records.errors import InputError

TEMPORARY = ".headbench-tmp"  # of no file but our own
HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]  # in the names of temporary files
LEFT = 24 * 3600.0  # seconds after which no other machine is still writing a file


def digest_of(value: Any) -> str:
    """SHA-256 (hex) of a value made of dicts, lists, strings, numbers, booleans and None.

    As that of ``tasks.digest``, without which records are read.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the advisory lock on ``path``, a folder or a file; it excludes other processes on this machine.

    The kernel releases the lock when the process ends, even if it is killed. Raises FileNotFoundError if ``path`` does
    not exist.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would otherwise wait for its other end
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class NotAFile(ValueError):
    """A folder, pipe, socket or device where a file was expected."""


def read_file(path: Path) -> bytes:
    """Content of the file at ``path``, or that a symbolic link leads to. Never waits.

    Raises NotAFile for anything but a file, FileNotFoundError, or another OSError that names ``path``.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # to open a device may do something
        raise NotAFile(f"{path}: not a file")
    with naming(path), os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        return file.read()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Inside, an OSError is one about ``path``: writing to a full disk names no file by itself."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def temporary(path: Path) -> Path:
    """Where ``path`` is written before it is renamed: no other machine writes there, which no lock would keep out."""
    return path.with_name(f".{path.name}.{HOST}{TEMPORARY}")


def is_left(path: Path) -> bool:
    """Whether ``path`` is a file that a writer left when it was killed, where none on this machine is at work.

    It goes by the name and, of another machine's, by the age.
    """
    if not (path.name.startswith(".") and path.name.endswith(TEMPORARY) and path.is_file() and not path.is_symlink()):
        return False
    return path.name.endswith(f".{HOST}{TEMPORARY}") or time.time() - path.stat().st_mtime > LEFT


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` completely or not at all, even if the machine crashes.

    Raises OSError (disk full, no permission), which names ``path``, after removing its temporary file.
    """
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files, each completely or not at all.

    The last file refers to the others, so it never exists beside older versions of them. Raises OSError (disk full, no
    permission), which names the file, after removing its temporary files; the old files are then unchanged. Whoever
    interrupts it has the old files or the new ones.
    """
    try:
        for path, content in contents.items():
            with naming(path):
                temporary(path).unlink(missing_ok=True)  # of a killed writer
                with temporary(path).open("xb") as file:  # never through a link
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
    except BaseException:
        _remove_temporary(contents)
        raise
    try:
        _put_in_place(contents)
    except OSError:
        _remove_temporary(contents)
        raise
    except BaseException:  # Ctrl-C, say, when the last of the old files is gone already
        _put_in_place(contents)
        raise


def _put_in_place(paths: Iterable[Path]) -> None:
    """Rename those temporary files that are still there, the last one once the others are in their places."""
    *others, last = paths
    if others and temporary(last).exists():
        last.unlink(missing_ok=True)
    for path in (*others, last):
        if temporary(path).exists():
            temporary(path).replace(path)


def _remove_temporary(paths: Iterable[Path]) -> None:
    for path in paths:
        temporary(path).unlink(missing_ok=True)


@contextmanager
def folders_above(place: Path, out: Path, flag: str = "--out ") -> Iterator[None]:
    """Make the folders that ``place`` is to lie in; those in which there is nothing at the end are removed again.

    Raises InputError, which names ``out`` as ``flag`` does, where nothing can be written there.
    """
    new = [folder for folder in place.parents if not folder.exists()]
    try:
        check_writable(place.parent, flag, named=out)
        yield
    finally:
        for folder in new:
            with suppress(OSError):  # not empty, or never made
                folder.rmdir()


def check_writable(folder: Path, flag: str = "--out ", *, named: Path | None = None) -> None:
    """Raise InputError, which says what ``flag`` named (default: the folder), where nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{flag}{named or folder}: cannot write there: {error.strerror}") from error


@cache
def warn_once(remark: str) -> None:
    """Say something about a file on standard error, once: a verb may read the records several times."""
    print(f"headbench: {remark}", file=sys.stderr)
