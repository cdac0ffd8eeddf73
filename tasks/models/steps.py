"""Tell how far a training is, and how long it has to go, to whoever listens in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], object] | None] = ContextVar("listener", default=None)


@contextmanager
def steps_reported_to(listener: Callable[[str], object]) -> Iterator[None]:
    """Inside, trainings call ``listener`` at each step: ``step 40 of 100, at most 20 s left``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Steps:
    """Counts the steps of one training, of ``total`` at most: it may end before that, at its target."""

    def __init__(self, total: int):
        self._total, self._taken, self._begin = total, 0, time.perf_counter()

    def begin(self) -> None:
        """Say that the next step begins."""
        if listener := _listener.get():
            taken, passed = self._taken, time.perf_counter() - self._begin
            left = f", at most {passed / taken * (self._total - taken):.0f} s left" if taken else ""
            listener(f"step {taken + 1} of {self._total}{left}")
        self._taken += 1
