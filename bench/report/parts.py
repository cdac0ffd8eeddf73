"""Make the parts of a report in several processes, each of which starts with what this one has read."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

from bench.parent import end_with

Made = TypeVar("Made")
MOST = 8  # processes: each holds a copy of what it looks at
_parts: Sequence[Callable[[], Any]] = ()  # what the processes make: they are forked, so nothing of it is sent to them


def made(parts: Sequence[Callable[[], Made]], processes: int | None = None) -> list[Made]:
    """What each of ``parts`` returns, in their order; the longest should come first. Raises what a part raises.

    processes: how many at most; without a number as many as this process may use processors, up to ``MOST``. There is
    but this one where a fork is not safe: outside Linux.
    """
    global _parts
    if sys.platform != "linux":
        processes = 1
    number = min(len(parts), processes or len(os.sched_getaffinity(0)), MOST)
    if number < 2:
        return [part() for part in parts]
    _parts, others = parts, active_children()
    pool = ProcessPoolExecutor(number, get_context("fork"), initializer=partial(_begin, os.getpid()))
    try:
        return list(pool.map(_make, range(len(parts))))
    except BaseException:
        for process in active_children():
            if process not in others:
                process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        _parts = ()


def _begin(parent: int) -> None:
    """Signals end a process without a word: the parent says what there is to say."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    end_with(parent)


def _make(place: int) -> Any:
    return _parts[place]()
