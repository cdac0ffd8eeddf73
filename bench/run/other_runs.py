"""Other runs of this user on this machine: nothing waits for them, but latency is recorded as not measured alone.

A run is known by the machine and the process that it was started on. Processes of one run may be on several machines.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO


def this_run() -> str:
    """The name of the run that this process was started for."""
    return f"{socket.gethostname()}-{os.getpid()}"


@contextmanager
def announced(run: str = "") -> Iterator[None]:
    """Inside, this process is known to others as one of ``run``; the kernel withdraws that when the process dies.

    run: by default, this process is a run of its own. Where the folder is not to be trusted, nothing is announced.
    """
    folder = _folder()
    if folder is None:
        yield
        return
    path = folder / f"{run or this_run()}.{os.getpid()}.run"
    what = f"for {run}" if run else " ".join(sys.argv[1:]) or "headbench"
    with _locked_new(path) as file:
        file.write(f"process {os.getpid()}, since {datetime.now():%H:%M}: {what}")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _locked_new(path: Path) -> TextIO:
    """The file at ``path``, empty and locked. Before it is, another run may take it for one left behind."""
    while True:
        file = path.open("w", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                return file
        file.close()


def other_runs(run: str = "") -> list[str] | None:
    """Runs other than ``run``, by default that of this process: process, since when, and command; None if unknown."""
    found = []
    own = run or this_run()
    folder = _folder()
    if folder is None:
        return None
    for path in sorted(folder.glob("*.run")):
        if path.name.rpartition(".")[0].rpartition(".")[0] == own:
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
