"""Now and then, a line that says what long work is at."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from bench.measure.cost import duration

EVERY = 60.0  # seconds


class Heartbeat:
    """While it is entered, says on standard error each minute what is being done, and for how long already.

    What takes less says nothing. The stream is that of the process: what libraries say is kept from ``sys.stderr``.
    """

    def __init__(self, what: str, *, every: float = EVERY, to: TextIO | None = None):
        self._what, self._every, self._to = what, every, to or sys.__stderr__
        self._doing: Callable[[], str] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def at(self, doing: str | Callable[[], str]) -> None:
        """``doing`` is what is done from now on, or tells it each time it is asked."""
        self._doing = doing if callable(doing) else lambda: doing

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        begin = time.perf_counter()
        while not self._ended.wait(self._every):
            doing = f"{self._doing()}, " if self._doing else ""
            spent = duration(time.perf_counter() - begin)
            print(f"  {self._what}: {doing}{spent} so far", file=self._to, flush=True)
