"""Long work tells what it is doing: to whoever runs it or, every minute, to standard error."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

EVERY = 60.0  # seconds between two printed lines
TOLD_EVERY = 0.5  # seconds between two messages to a listener

_listener: Callable[[str], None] | None = None


def set_listener(listener: Callable[[str], None] | None) -> None:
    """From now on, give what work of this process is doing to ``listener``, instead of printing it."""
    global _listener
    _listener = listener


class Status:
    """While it is entered, tells what is being done.

    Without a listener it prints a line every minute to standard error, with the time that has passed; shorter work
    prints nothing. The stream is that of the process, as ``sys.stderr`` may be redirected.
    """

    def __init__(self, what: str, *, every: float = EVERY, to: TextIO | None = None):
        self._what, self._every, self._to = what, every, to or sys.__stderr__
        self._doing: Callable[[], str] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell if _listener else self._print, daemon=True)

    def now(self, doing: str | Callable[[], str]) -> None:
        """Set what is being done from now on: a text, or a function that gives it whenever it is reported."""
        self._doing = doing if callable(doing) else lambda: doing

    def __enter__(self) -> Status:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _tell(self) -> None:
        told = ""
        while not self._ended.wait(TOLD_EVERY):
            if _listener and self._doing and (doing := self._doing()) != told:
                _listener(doing)
                told = doing

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
