"""What a run shows while it is at work: the outcome of each job, what is at hand, and a question after Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, TextIO

from bench.measure.status import EVERY, duration
from bench.process import signals
from bench.run.engines import Busy
from bench.run.jobs import TrainJob

SKIPPED = "skipped by Ctrl-C"
MANY = 16  # jobs at hand, of which only the longest is named if they are more
SOON = 1.0  # seconds after which a job is named where the output is no terminal


class Progress:
    """While it is entered, Ctrl-C asks which cells to skip on a terminal, and ends the run elsewhere.

    On a terminal the last line always names what is at hand. Elsewhere, as in a file, each job is named after a second,
    and again every minute. Of many jobs only the longest is named.
    """

    def __init__(self, questions: TextIO | None = None, status: TextIO | None = None):
        self._questions, self._status = questions or sys.stdin, status or sys.stderr
        self._live = self._status.isatty()
        self._shown = ""  # the line on the terminal that is to be replaced
        self._next: dict[int, float] = {}  # by index of a job: its seconds at which it is named next
        self._asked = False
        self._ended = False
        self._former: Any = None

    def __enter__(self) -> Progress:
        if threading.current_thread() is threading.main_thread():
            self._former = signal.getsignal(signal.SIGINT)
            if self._former is not signal.SIG_IGN:
                signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)
        if kind is None and (self._asked or self._ended):  # since the last look at the workers
            raise KeyboardInterrupt

    def say(self, text: str) -> None:
        """Print a line to standard output."""
        self._clear()
        print(text, flush=True)

    def watch(self, busy: Sequence[Busy], left: str = "") -> None:
        """Show what the workers are at; answer a Ctrl-C, or SIGTERM. left: the time left, in words."""
        signals.check()
        if self._ended:  # it was raised where nothing can be, such as in code that frees an object of Ray's
            raise KeyboardInterrupt
        if self._asked:
            self._clear()
            self._ask([worker for worker in busy if not isinstance(worker.job, TrainJob)])
            self._asked = False
        many = len(busy) > MANY
        named = [max(busy, key=lambda worker: worker.seconds)] if many else busy
        before = f"{len(busy)} at work, the longest: " if many else ""
        if self._live:
            parts = [_at_hand(worker) for worker in named]
            self._show(f"  {before}" + "; ".join([*parts, *([left] if left else [])]))
            return
        first = EVERY if many else SOON
        self._next = {worker.index: self._next.get(worker.index, first) for worker in busy if worker.index is not None}
        for worker in named:
            if worker.index is not None and worker.seconds >= self._next[worker.index]:
                self._next[worker.index] = worker.seconds // EVERY * EVERY + EVERY
                print(f"  {before}{_at_hand(worker)} so far", file=self._status, flush=True)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._asked or not (self._live and self._questions.isatty()):
            self._ended = True
            raise KeyboardInterrupt
        self._asked = True

    def _ask(self, cells: Sequence[Busy]) -> None:
        """Ask which of ``cells`` to skip. Raises KeyboardInterrupt where there is none, and on a second Ctrl-C."""
        if not cells:
            raise KeyboardInterrupt
        names = [str(getattr(worker.job, "name", worker.job)) for worker in cells]
        if len(cells) == 1:
            question = f"Skip {names[0]}? [y/N] "
        else:
            listed = "".join(f"  {number} {name}\n" for number, name in enumerate(names, 1))
            question = f"Skip a cell? Its number, or all; Enter for none.\n{listed}> "
        print(
            f"\nCtrl-C again ends the run; finished cells are kept. {question}", end="", file=self._status, flush=True
        )
        given = self._questions.readline().strip().lower().replace(",", " ").split()
        wanted = set(given)
        if (len(cells) == 1 and wanted & {"y", "yes"}) or "all" in wanted:
            wanted = {str(number) for number in range(1, len(cells) + 1)}
        for number, worker in enumerate(cells, 1):
            if str(number) in wanted:
                worker.stop(SKIPPED)

    def _show(self, text: str) -> None:
        width = (os.get_terminal_size(self._status.fileno()).columns or 80) - 1  # 0 where it does not say
        if text != self._shown:
            self._status.write("\r\x1b[K" + (text if len(text) <= width else text[: max(0, width - 1)] + "…"))
            self._status.flush()
            self._shown = text

    def _clear(self) -> None:
        if self._shown:
            self._status.write("\r\x1b[K")
            self._status.flush()
            self._shown = ""


def _at_hand(worker: Busy) -> str:
    """``ae on MODEL, DATA, seed 0: choosing, 40 examples sent forward, 12 s``."""
    doing = f"{worker.doing}, " if worker.doing else ""
    return f"{getattr(worker.job, 'name', '')}: {doing}{duration(worker.seconds)}"
