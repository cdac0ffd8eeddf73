"""Whose turn it is on this machine: cells run side by side, but none beside one that measures latency."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from torch import nn

from bench.measure.cost import timing
from bench.records.files import locked


class Turn:
    """Work that runs beside others, and lets those go first who wait to measure.

    waited: seconds in which they measured.
    """

    def __init__(self) -> None:
        self.waited = 0.0
        self._place = ExitStack()
        self._gate = -1

    @contextmanager
    def _taken(self) -> Iterator[None]:
        self._gate = os.open(_gate(), os.O_RDONLY)
        try:
            self._take()
            yield
        finally:
            self._place.close()
            os.close(self._gate)
            self._gate = -1

    def _take(self) -> None:
        with locked(_gate()):  # behind all who wait to measure
            pass
        self._place.enter_context(locked(_machine(), shared=True))

    def give_way(self) -> None:
        """Let those measure who wait to; some microseconds where nobody does, nothing once the work is over."""
        if self._gate < 0 or not self._somebody_waits():
            return
        begin = time.perf_counter()
        self._place.close()
        self._take()
        self.waited += time.perf_counter() - begin

    def _somebody_waits(self) -> bool:
        try:
            fcntl.flock(self._gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        return False

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Inside, give way before each forward pass of ``model`` and of copies made of it, which keep its hook."""
        hook = model.register_forward_pre_hook(lambda *_: self.give_way())
        try:
            yield
        finally:
            hook.remove()

    @contextmanager
    def timing(self, device: torch.device) -> Iterator[list[float]]:
        """As ``bench.measure.cost.timing``, without the seconds in which others measured."""
        before = self.waited
        with timing(device) as seconds:
            yield seconds
        seconds[0] -= self.waited - before


@contextmanager
def beside_others() -> Iterator[Turn]:
    """Work that may run beside other cells, but not while one of them measures latency."""
    turn = Turn()
    with turn._taken():
        yield turn


@contextmanager
def alone() -> Iterator[None]:
    """Work that must not run beside any other cell of this user on this machine."""
    with ExitStack() as stack:
        with locked(_gate(), shared=True):  # until it is our turn, others see that we wait
            stack.enter_context(locked(_machine()))
        yield


def _machine() -> Path:
    """What those hold who work, together, or one who measures, alone."""
    return _lock("")


def _gate() -> Path:
    """What those hold, together, who wait to measure; who begins to work passes it alone."""
    return _lock("-waiting")


def _lock(suffix: str) -> Path:
    path = Path(tempfile.gettempdir()) / f"headbench-{os.getuid()}{suffix}.lock"
    path.touch()
    return path
