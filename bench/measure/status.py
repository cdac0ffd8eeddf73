"""Long work prints its status every minute."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

EVERY = 60.0  # seconds


class Status:
    """While it is entered, prints every minute to standard error what is being done, and for how long already.

    Shorter work prints nothing. The stream is that of the process, as ``sys.stderr`` may be redirected.
    """

    def __init__(self, what: str, *, every: float = EVERY, to: TextIO | None = None):
        self._what, self._every, self._to = what, every, to or sys.__stderr__
        self._doing: Callable[[], str] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._print, daemon=True)

    def now(self, doing: str | Callable[[], str]) -> None:
        """Set what is being done from now on: a text, or a function that gives it whenever it is printed."""
        self._doing = doing if callable(doing) else lambda: doing

    def __enter__(self) -> Status:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _print(self) -> None:
        begin = time.perf_counter()
        while not self._ended.wait(self._every):
            doing = f"{self._doing()}, " if self._doing else ""
            spent = duration(time.perf_counter() - begin)
            print(f"  {self._what}: {doing}{spent} so far", file=self._to, flush=True)


def duration(seconds: float) -> str:
    """``seconds`` for people: ``40 s``, ``3 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
