"""Standard streams that take whatever is printed, also where they are closed or their encoding has few characters."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


def make_usable() -> None:
    """Have standard streams that never stop the command: only a full disk or a reader that has gone does.

    A stream that is closed reads nothing and writes nowhere. What an encoding does not have is written as an escape
    such as ``\\u2013``.
    """
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def _open_closed() -> None:
    """Open the null device in place of closed streams: else the next file that is opened takes their number."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
