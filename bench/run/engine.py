"""Run jobs one after another, or in processes that outlive a job that kills its process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

import torch

PATIENCE = 5.0  # seconds that an idle process has to end


class Job(Protocol):
    """A piece of work that can be sent to another process."""

    def __call__(self) -> Any: ...


@dataclass(frozen=True)
class Done:
    """The outcome of the job at ``index``: a value, or the reason why there is none."""

    index: int
    seconds: float
    value: Any = None
    died: str = ""  # how its process ended, if that is what happened
    error: BaseException | None = None  # what it raised, which ends the run


def run_jobs(
    jobs: Sequence[Job], workers: int, start: Callable[[], None], own_process: bool = False
) -> Generator[Done, None, None]:
    """Run ``jobs`` in order on ``workers`` processes of one thread each; yield their outcomes as they finish.

    A single worker is this process, unless ``own_process`` is set. ``start`` is called first in every process. A job
    whose process dies is reported as such, and a new process replaces it. When the caller stops iterating, the
    processes are ended. A pool of the standard library would not do: one dead process breaks a whole
    ``ProcessPoolExecutor``, and ``multiprocessing.Pool`` waits forever for the job that died.
    """
    if workers == 1 and not own_process:
        torch.set_num_threads(1)
        start()
        for index, job in enumerate(jobs):
            yield _run(index, job)
        return
    context = get_context("spawn")
    waiting = list(range(len(jobs)))[::-1]
    crew: list[_Worker] = []
    try:
        crew = [_Worker(context, start) for _ in range(min(workers, len(jobs)))]
        for worker in crew:
            worker.give(waiting.pop(), jobs)
        while busy := [worker for worker in crew if worker.index is not None]:
            ready = wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                done = worker.take()
                if done.died and waiting:
                    crew.remove(worker)
                    worker = _Worker(context, start)
                    crew.append(worker)
                if waiting:
                    worker.give(waiting.pop(), jobs)
                yield done
    finally:
        for worker in crew:
            worker.end()


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, context, start: Callable[[], None]):
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, start, os.getpid()), daemon=True)
        self.process.start()
        other.close()
        self.index: int | None = None
        self.begin = 0.0

    def give(self, index: int, jobs: Sequence[Job]) -> None:
        self.index, self.begin = index, time.perf_counter()
        with contextlib.suppress(BrokenPipeError):  # its end is then seen by take
            self.pipe.send((index, jobs[index]))

    def take(self) -> Done:
        """The outcome of the job that it was given."""
        index, self.index = self.index, None
        assert index is not None
        try:
            return self.pipe.recv()
        except (EOFError, OSError):  # OSError where it ended in the middle of a message
            self.process.join()
            code = self.process.exitcode or 0
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            if code == -signal.SIGKILL:
                how += ", as when memory runs out"
            return Done(index, time.perf_counter() - self.begin, died=f"its process ended with {how}")

    def end(self) -> None:
        self.pipe.close()
        if self.index is None:  # idle: it ends when the pipe closes, and releases what it holds
            self.process.join(PATIENCE)
        self.process.terminate()
        self.process.join()


def _serve(pipe: Connection, start: Callable[[], None], parent: int) -> None:
    """The loop of a worker process: take jobs until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    start()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            index, job = pipe.recv()
            pipe.send(_run(index, job))


def _end_with(parent: int) -> None:
    """End this process soon after its parent, however that died."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _run(index: int, job: Job) -> Done:
    begin = time.perf_counter()
    try:
        value = job()
    except Exception as error:
        error.add_note(traceback.format_exc())  # a traceback does not survive the way to another process
        return Done(index, time.perf_counter() - begin, error=error)
    return Done(index, time.perf_counter() - begin, value)
