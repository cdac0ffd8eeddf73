"""Other runs of this user on this machine: nothing waits for them, but latency is recorded as not measured alone."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path


@contextmanager
def announced() -> Iterator[None]:
    """Inside, this process is known to others as a run at work; the kernel withdraws that when the process dies."""
    path = _folder() / f"{os.getpid()}.run"
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"process {os.getpid()}, since {datetime.now():%H:%M}: {' '.join(sys.argv[1:]) or 'headbench'}")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def other_runs() -> list[str]:
    """Runs other than that of this process and of the one that started it: process, since when, and command."""
    found = []
    own = {str(os.getpid()), str(os.getppid())}
    for path in sorted(_folder().glob("*.run")):
        if path.stem in own:
            continue
        with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(file.read())
            else:
                path.unlink(missing_ok=True)  # its process died
    return found


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"headbench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
