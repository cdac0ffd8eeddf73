"""End a process together with the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from multiprocessing.connection import wait
from multiprocessing.process import parent_process

PR_SET_PDEATHSIG = 1  # of prctl(2)


def end_with(parent: int) -> None:
    """End this process as soon as its parent, whose number is ``parent``, has ended, however that was.

    On Linux the kernel does it. Elsewhere a thread waits for the end of the pipe from the parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before that call
            os._exit(1)
    else:
        threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    process = parent_process()
    if process is not None:
        wait([process.sentinel])
        os._exit(1)
