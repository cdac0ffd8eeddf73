"""Run jobs in processes of their own, so that no job can end the run: neither by ending its process nor by hanging."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import Any

from bench.run.job import Job, followers, given_up, to_send
from bench.run.worker import Begun, Doing, Done, interrupts_blocked, serve

PATIENCE = 5.0  # seconds that an idle process has to end
TICK = 0.25  # seconds between two looks at what the processes do


def run_jobs(
    jobs: Sequence[Job],
    workers: int,
    start: Callable[[], None],
    *,
    fresh: bool = False,
    watch: Callable[[Sequence[Worker]], None] = lambda busy: None,
) -> Generator[Done, None, None]:
    """Run ``jobs`` in order on ``workers`` processes of one thread each; yield their outcomes as they finish.

    ``start`` is called first in every process. A job whose process dies is reported as such, and a new process
    replaces it. Jobs that need one that fails are not run. When the caller stops iterating, the
    processes are ended. A pool of the standard library would not do: one dead process breaks a whole
    ``ProcessPoolExecutor``, and ``multiprocessing.Pool`` waits forever for the job that died.

    Args:
        fresh: start processes that import everything anew, as CUDA needs; elsewhere than on Linux they always do.
            Else they are forked from this process, which takes milliseconds instead of seconds.
        watch: called several times a second with the workers that have a job, which it may stop.
    """
    context = get_context("spawn" if fresh or sys.platform != "linux" else "fork")
    waiting = list(range(len(jobs)))[::-1]
    following = followers(jobs)
    crew: list[Worker] = []
    again: set[int] = set()

    def ready() -> int | None:
        running = {id(worker.job) for worker in crew if worker.index is not None}
        for place in range(len(waiting) - 1, -1, -1):  # may be thousands, each time a job ends
            needed = getattr(jobs[waiting[place]], "needs", None)
            if needed is None or id(needed) not in running:
                return waiting.pop(place)
        return None

    def assign() -> None:
        """Give a job to each worker without one, and start workers as long as there are jobs for them."""
        while (idle := next((each for each in crew if each.index is None), None)) or len(crew) < workers:
            if (index := ready()) is None:
                return
            if idle is None:
                idle = Worker(context, start, [other.pipe for other in crew])
                crew.append(idle)
            idle.give(index, jobs)

    try:
        assign()
        while busy := [worker for worker in crew if worker.index is not None]:
            watch(busy)
            wait([worker.pipe for worker in busy], TICK)
            ended: list[Done] = []
            for worker in busy:
                if (done := worker.outcome()) is None:
                    continue
                if not worker.alive:
                    crew.remove(worker)
                    worker.end()
                if done.crashed and not worker.began and done.index not in again:
                    again.add(done.index)  # it died of what an earlier job left behind
                    waiting.append(done.index)
                else:
                    ended.append(done)
            without = [each for done in ended for each in given_up(jobs, following.pop(done.index, ()), done)]
            for each in without:
                waiting.remove(each.index)
            assign()
            # What ends the run comes last, so that what has ended beside it is kept.
            yield from sorted([*ended, *without], key=lambda done: done.error is not None)
    finally:
        for worker in crew:
            worker.end()


class Worker:
    """One process and the pipe to it."""

    def __init__(self, context: Any, start: Callable[[], None], others: list[Any]):
        self.alive = True
        self.index: int | None = None  # of the job that it was given
        self.job: Job | None = None
        self.doing = ""  # what the job says that it does
        self._begin: float | None = None
        self._reason = ""
        self.pipe, other = context.Pipe()
        inherited = [] if context.get_start_method() == "spawn" else [*others, self.pipe]
        self._process = context.Process(target=serve, args=(other, inherited, start, os.getpid()), daemon=True)
        with interrupts_blocked():
            self._process.start()
        other.close()

    @property
    def began(self) -> bool:
        """Whether the job has begun."""
        return self._begin is not None

    @property
    def seconds(self) -> float:
        """How long the job has been running; 0 while the process still starts."""
        return 0.0 if self._begin is None else time.perf_counter() - self._begin

    def give(self, index: int, jobs: Sequence[Job]) -> None:
        """Give it a job."""
        self.index, self.job, self.doing, self._begin, self._reason = index, jobs[index], "", None, ""
        sent = to_send(jobs[index])
        with contextlib.suppress(OSError):  # its end is then seen by outcome
            self.pipe.send((index, sent))

    def stop(self, reason: str) -> None:
        """End the process at once; the outcome of the job is then ``reason``, unless it has ended already."""
        if self.index is not None and not self._reason:
            self._reason, self.alive = reason, False
            self._process.kill()

    def outcome(self) -> Done | None:
        """The outcome of its job; None while the job is running."""
        timeout = getattr(self.job, "timeout", None)
        if timeout is not None and self.seconds > timeout:
            self.stop(f"it took longer than {timeout:g} s (--timeout)")
        ended = not self._process.is_alive()  # before the pipe is read: what it sent before its end counts
        try:
            while self.pipe.poll():
                match self.pipe.recv():
                    case Begun():
                        self._begin = time.perf_counter()
                    case Doing(text):
                        self.doing = text
                    case Done() as done if done.index == self.index:
                        self.index = self.job = None
                        self.alive = not done.last
                        return done
        except (EOFError, OSError):  # OSError where it ended in the middle of a message
            self._process.join()
            ended = True
        return self._death() if ended else None

    def _death(self) -> Done:
        index, seconds, self.index, self.job, self.alive = self.index, self.seconds, None, None, False
        assert index is not None
        code = self._process.exitcode or 0
        how = f"exit code {code}"
        if code < 0:
            how = f"signal {signal.Signals(-code).name if -code in set(signal.Signals) else -code}"
        if code == -signal.SIGKILL:
            how += ", as when memory runs out"
        return Done(index, seconds, died=self._reason or f"its process ended with {how}", crashed=not self._reason)

    def end(self) -> None:
        """End the process; one without a job has a moment to release what it holds."""
        self.pipe.close()
        if self.index is None:
            self._process.join(PATIENCE)
        self._process.kill()
        self._process.join()
