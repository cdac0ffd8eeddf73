"""Files that are written whole or not at all, and locks that end with the process that holds them."""

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
    """Hold the advisory lock of ``path``, a folder or a file, among the processes of this machine.

    The kernel releases it when its holder dies, however it dies. Raises FileNotFoundError where nothing is there.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` so that it appears whole or not at all, even after a crash of the machine.

    Raises OSError (disk full, no permission), after removing what it had written.
    """
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files, each whole. The last one names the others: it never exists beside others than its own.

    Raises OSError (disk full, no permission), after removing what it had written; files of before are then untouched.
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
        for left in temporary.values():
            left.unlink(missing_ok=True)
        raise


def check_writable(out: Path) -> None:
    """Raise InputError where nothing can be written to ``out``."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InputError(f"--out {out}: cannot write there: {error.strerror}") from error
