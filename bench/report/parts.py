"""Make the parts of a report in several processes, each of which starts with what this one has read."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from bench.process.cores import cores
from bench.process.parent import end_with

Made = TypeVar("Made")
MOST = 8  # processes: each holds a copy of what it looks at
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_in_processes(parts: Sequence[Callable[[], Made]], processes: int | None = None) -> list[Made]:
    """What each of ``parts`` returns, in their order; the longest should come first. Raises what a part raises.

    processes: how many at most; without a number as many as there are cores, up to ``MOST``. Outside Linux, where a
    fork is not safe, this process makes all parts.

    ``ProcessPoolExecutor`` would do the same, but its thread prints a traceback where a signal ends its processes.
    """
    if sys.platform != "linux":
        processes = 1
    number = min(len(parts), processes or cores(), MOST)
    if number < 2:
        return [part() for part in parts]
    context, started = get_context("fork"), []
    try:
        # A process that a signal meets before it has begun would handle it as this one does.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            ends = []
            for _ in range(number):
                ours, its = context.Pipe()
                process = context.Process(target=_work, args=(parts, its, os.getpid()), daemon=True)
                process.start()
                started.append(process)
                its.close()  # so that the end of the process is the end of what it sends
                ends.append(ours)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return _collected(len(parts), ends)
    except BaseException as error:
        for process in started:
            process.terminate()
        if isinstance(error, (EOFError, ConnectionError)):  # as where memory is short
            raise ChildProcessError("a process that made a part of the report has ended early") from None
        raise
    finally:
        for process in started:
            process.join()


def _collected(number: int, ends: list[Connection]) -> list[Any]:
    """What the processes at the other ``ends`` make of so many parts, of which each is given the next when it is done.

    Raises EOFError or ConnectionError where one of them ends before it is done.
    """
    found: dict[int, Any] = {}
    places = iter(range(number))
    for end in ends:
        end.send(next(places))
    busy = list(ends)
    while busy:
        ready = wait(busy)
        for end in [each for each in busy if each in ready]:
            place, value, error = end.recv()
            if error is not None:
                raise error
            found[place] = value
            end.send(following := next(places, None))
            if following is None:
                busy.remove(end)
    return [found[place] for place in range(number)]


def _work(parts: Sequence[Callable[[], Any]], end: Connection, parent: int) -> None:
    """Make the parts that are asked for. Signals end the process without a word: the parent says what there is to say.

    Nothing of ``parts`` is sent here: the process is forked.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    end_with(parent)
    for place in iter(end.recv, None):
        try:
            end.send((place, parts[place](), None))
        except Exception as error:
            error.add_note(traceback.format_exc())
            end.send((place, None, error))
