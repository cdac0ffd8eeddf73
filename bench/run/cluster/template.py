"""The child of one of Ray's processes: it has loaded torch and all methods, and forks the process that runs jobs.

So a crash costs milliseconds, Ray's own process holds no model, and a timeout ends a job as on one's own machine.
"""

from __future__ import annotations

import pickle
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from bench.run.jobs import Unreadable, start_process
from bench.run.other_runs import registered
from bench.run.processes import TICK, Worker
from bench.run.worker import Done
from tasks.request import TaskSpec


def start() -> None:
    """Load what jobs need. Raises InputError where a plugin does not load."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    start_process()


def serve(pipe: Connection, threads: int, run: str) -> None:
    """Take jobs until the pipe closes, which ends the one at hand.

    A job comes as ``(pickled job, cache, moved)``, the last as ``relocated`` takes it.
    Sends ``("doing", text)`` and ``("done", pickled Done, whether its process crashed)``.
    """
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    worker: Worker | None = None
    with registered(run):
        for number in count():
            content, cache, moved = pipe.recv()
            job = pickle.loads(content)
            if not isinstance(job, Unreadable):
                cell = replace(job.cell, task=relocated(job.cell.task, moved))
                job = replace(job, cell=cell, cache=cache)
            jobs: Any = {number: job}  # each job has a number of its own: what an earlier one still sends is not its
            while True:
                if fresh := worker is None or not worker.alive:
                    worker = Worker(context, partial(_start_worker, threads), [pipe])
                assert worker is not None
                worker.give(number, jobs)
                done = _outcome(worker, pipe)
                if not worker.alive:
                    worker.end()
                if fresh or worker.began or not done.crashed:  # else it died of what an earlier job left behind
                    break
            if not isinstance(job, Unreadable) and job.cell.device != "cpu":
                worker.end()  # it holds memory of a GPU, which may be that of another process's next job
                worker = None
            pipe.send(("done", pickle.dumps(done), done.crashed))


def relocated(task: TaskSpec, moved: Mapping[tuple[str, str], str]) -> TaskSpec:
    """``task`` with what the user named where it is here. moved: that place by the field, and what is given there."""
    found: dict[str, str | tuple[str, ...]] = {}
    for (field, given), place in moved.items():
        before = found.get(field, getattr(task, field))
        found[field] = place if isinstance(before, str) else tuple(place if each == given else each for each in before)
    return task.model_copy(update=found)


def _outcome(worker: Worker, pipe: Connection) -> Done:
    """Wait for the job of ``worker``, and tell of it meanwhile. Raises EOFError where the pipe closes."""
    told = ""
    while (done := worker.outcome()) is None:
        wait([worker.pipe, pipe], TICK)
        if worker.doing != told:
            told = worker.doing
            pipe.send(("doing", told))
        if pipe.poll():
            pipe.recv()  # nothing is sent while a job is at hand
    return done


def _start_worker(threads: int) -> None:
    start_process()  # where the process was not forked from this one
    torch.set_num_threads(threads)
