"""Other runs of this user on this machine: nothing waits for them, but latency is recorded as not measured alone.

A run is known by the machine and the process that it was started on, and by a few letters: in containers, several may
have the same of both. Processes of one run may be on several machines.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO

OWN = secrets.token_hex(4)  # of this process, and of those forked from it


def this_run() -> str:
    """The name of the run that this process was started for."""
    return f"{socket.gethostname()}-{os.getpid()}-{OWN}"


@contextmanager
def registered(run: str = "") -> Iterator[None]:
    """Inside, this process is known to others as one of ``run``; the kernel withdraws that when the process dies.

    run: by default, this process is a run of its own. Where the folder is not to be trusted, nobody learns of it.
    """
    folder = _folder()
    if folder is None:
        yield
        return
    what = f"for {run}" if run else " ".join(sys.argv[1:]) or "headbench"
    path, file = _locked_new(folder, run or this_run())
    with file:
        file.write(f"process {os.getpid()}, since {datetime.now():%H:%M}: {what}")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _locked_new(folder: Path, run: str) -> tuple[Path, TextIO]:
    """A new file of ``run``, locked. Before it is, another run may take it for one left behind: then it makes another.

    Its name is its own, and it does not wait for the lock: a process that looks at it may have been stopped.
    """
    while True:
        number, name = tempfile.mkstemp(".run", f"{run}.{os.getpid()}.", folder)
        path, file = Path(name), os.fdopen(number, "w", encoding="utf-8")
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.stat().st_ino == os.fstat(number).st_ino:
                return path, file
        file.close()
        path.unlink(missing_ok=True)


def other_runs(run: str = "") -> list[str] | None:
    """Runs other than ``run``, by default that of this process: process, since when, and command; None if unknown."""
    found = []
    own = run or this_run()
    folder = _folder()
    if folder is None:
        return None
    for path in sorted(folder.glob("*.run")):
        if path.name.rsplit(".", 3)[0] == own:  # before the process, what makes the name its own, and the suffix
            continue
        with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(file.read())
            else:
                path.unlink(missing_ok=True)  # its process died
    return found


def _folder() -> Path | None:
    """Where runs announce themselves; None where another user may have made what has that name, or may write to it."""
    folder = Path(tempfile.gettempdir()) / f"headbench-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return folder if ours else None
