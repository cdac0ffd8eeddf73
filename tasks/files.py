"""Files that are there whole or not at all, and locks that die with the process that held them."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

TEMPORARY = ".tmp"


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[Callable[[], bool]]:
    """Hold the advisory lock of ``path``, a folder or a file, among processes of this machine.

    The kernel frees it when its holder dies, however it dies. Yields a function that says whether the lock is still
    that of what is at ``path``: while waiting, it may have been moved or deleted. Raises FileNotFoundError where
    nothing is there; to make it here could put a file in the place of a folder that was moved a moment ago.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield lambda: path.exists() and os.path.samestat(os.fstat(handle), path.stat())
    finally:
        os.close(handle)


@contextmanager
def system_errors() -> Iterator[None]:
    """Turn what safetensors says of a full disk or a missing permission into the OSError that it is."""
    try:
        yield
    except SafetensorError as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        if not found:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1]))) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` so that it appears whole or not at all, also after a crash of the machine.

    Raises OSError (disk full, no permission), after removing what it had written.
    """
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files, each whole. The last vouches for the others: it is never there beside others than its own.

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
