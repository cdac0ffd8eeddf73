"""Files that are written completely or not at all, and locks that are released when their process ends."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.records.errors import InputError

TEMPORARY = ".tmp"


def digest_of(value: Any) -> str:
    """SHA-256 (hex) of a value made of dicts, lists, strings, numbers, booleans and None."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the advisory lock on ``path``, a folder or a file; it excludes other processes on this machine.

    The kernel releases the lock when the process ends, even if it is killed. Raises FileNotFoundError if ``path`` does
    not exist.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` completely or not at all, even if the machine crashes.

    Raises OSError (disk full, no permission) after removing its temporary file.
    """
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files, each completely or not at all.

    The last file refers to the others, so it never exists beside older versions of them. Raises OSError (disk full, no
    permission) after removing its temporary files; the old files are then unchanged.
    """
    temporary = {path: path.with_name(path.name + TEMPORARY) for path in contents}
    *others, last = contents
    try:
        for path, content in contents.items():
            with temporary[path].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        if others:
            last.unlink(missing_ok=True)
        for path in contents:
            temporary[path].replace(path)
    except BaseException:
        for path in temporary.values():
            path.unlink(missing_ok=True)
        raise


def check_writable(out: Path) -> None:
    """Raise InputError where nothing can be written to ``out``."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InputError(f"--out {out}: cannot write there: {error.strerror}") from error
