"""Jobs run in order in one process or several, and outlive a process that dies."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch

from bench.measure import isolation
from bench.run.processes import run_jobs

NOTHING = partial(int)  # importable by a worker, as a function of this module is not


def values(jobs, workers: int) -> dict:
    return {done.index: done.value for done in run_jobs(jobs, workers, NOTHING)}


@pytest.mark.parametrize("workers", [1, 2])
def test_every_job_is_done_once(workers):
    assert values([partial(pow, 2, power) for power in range(9)], workers) == {i: 2**i for i in range(9)}
    assert values([], workers) == {}


def test_jobs_start_in_their_order():
    assert list(values([partial(pow, 2, power) for power in range(4)], 1)) == [0, 1, 2, 3]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_job_waits_for_the_one_that_it_needs(workers, tmp_path):
    """With several processes the first cannot end before the last has begun, whatever the machine does besides."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    needing = partial(pow, 2, 1)
    if workers == 1:
        first, other = partial(int), partial(int)
    else:
        first, other = partial(Path.read_text, pipe), partial(Path.write_text, pipe, "")
    needing.needs, first.failed = first, bool
    order = list(values([first, needing, other], workers))
    assert sorted(order) == [0, 1, 2] and order.index(0) < order.index(1)


@dataclass
class Training:
    """A job that others need."""

    work: Callable[[], object]

    def __call__(self) -> object:
        return self.work()

    def died(self, reason: str) -> str:
        return reason

    def failed(self, report: object) -> bool:
        return bool(report)


@dataclass
class Needing:
    """A job that needs another."""

    needs: Training

    def __call__(self) -> str:
        return "done"

    def without(self, report: object) -> str:
        return f"without: {report}"


@pytest.mark.skipif(sys.platform != "linux", reason="a worker must know this module")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_is_not_run_if_the_one_that_it_needs_fails(workers):
    well, fails, dies = (Training(partial(work, code)) for work, code in ((int, 0), (int, 3), (os._exit, 7)))
    jobs = [well, fails, Needing(fails), Needing(well), dies, Needing(dies), Needing(fails), partial(pow, 2, 2)]
    found = values(jobs, workers)
    ended = "without: its process ended with exit code 7"
    assert found == {0: 0, 1: 3, 2: "without: 3", 3: "done", 4: None, 5: ended, 6: "without: 3", 7: 4}
    places = list(found)
    assert places[places.index(1) + 1 :][:2] == [2, 6]  # at once, while others are at work


def test_what_a_job_raises_comes_back():
    for workers in (1, 2):
        (done,) = run_jobs([partial(int, "x")], workers, NOTHING)
        assert isinstance(done.error, ValueError) and "Traceback" in done.error.__notes__[0]


def test_a_process_that_dies_costs_its_job_only():
    jobs = [
        partial(pow, 2, 1),
        partial(signal.raise_signal, signal.SIGKILL),
        partial(os._exit, 7),
        partial(pow, 2, 2),
        partial(pow, 2, 3),
        partial(os._exit, 0),
        partial(signal.raise_signal, signal.SIGRTMIN + 6),
    ]
    done = {done.index: done for done in run_jobs(jobs, 2, NOTHING)}
    assert [done[index].value for index in (0, 3, 4)] == [2, 4, 8]
    assert done[1].died == "its process ended with signal SIGKILL, as when memory runs out"
    assert done[2].died == "its process ended with exit code 7"
    assert done[5].died == "its process ended with exit code 0"
    assert done[6].died == f"its process ended with signal {signal.SIGRTMIN + 6}"  # which has no name


def test_a_process_whose_gpu_takes_no_more_work_is_replaced(monkeypatch):
    """After some faults of CUDA each call fails until the process ends: the jobs that follow must not meet that."""

    def fails(number):
        raise RuntimeError("CUDA error: device-side assert triggered")

    for name, found in (("is_initialized", True), ("device_count", 1), ("memory_reserved", 1), ("synchronize", None)):
        monkeypatch.setattr(torch.cuda, name, lambda *_, found=found: found)
    assert len(set(values([partial(os.getpid)] * 3, 1).values())) == 1
    monkeypatch.setattr(torch.cuda, "synchronize", fails)
    assert len(set(values([partial(os.getpid)] * 3, 1).values())) == 3


def comes_back_twice() -> int:
    """As a method does that forks, and lets its child return."""
    if not os.fork():
        time.sleep(0.3)
    return 7


def leave_something_behind() -> None:
    isolation._changed = True


def test_no_job_goes_to_a_process_that_ends_as_an_earlier_one_left_something_behind():
    """Nor is one that waits until such processes have ended."""
    slow = partial(time.sleep, 1.0)
    needing = partial(pow, 2, 1)
    needing.needs, slow.failed = slow, bool
    for jobs in (
        [leave_something_behind] * 3 + [slow],
        [leave_something_behind, leave_something_behind, slow, needing],
    ):
        done = list(run_jobs(jobs, 3, NOTHING))
        assert len(done) == 4 and not any(each.died or each.crashed for each in done), done


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_job_that_comes_back_twice_has_one_outcome():
    """The second would be taken for that of the next job, and its process for one that takes jobs."""
    jobs = [comes_back_twice, partial(time.sleep, 1), partial(pow, 2, 1), partial(pow, 2, 2)]
    done = list(run_jobs(jobs, 1, NOTHING))
    assert [(each.index, each.value, each.died) for each in done] == [(0, 7, ""), (1, None, ""), (2, 2, ""), (3, 4, "")]


class Unreadable:
    """It can be pickled, but what comes of it raises an error."""

    def __init__(self, error: type[BaseException]):
        self.error = error

    def __reduce__(self):
        return raised, (self.error,)


def raised(error: type[BaseException]) -> None:
    raise error


@pytest.mark.skipif(sys.platform != "linux", reason="a worker must know this module")
@pytest.mark.parametrize("error", [TypeError, FileNotFoundError, EOFError, SystemExit])
def test_an_outcome_that_cannot_be_read_fails_its_job_only(error):
    jobs = [partial(Unreadable, error), partial(open, os.devnull), partial(pow, 2, 2)]
    first, second, third = run_jobs(jobs, 1, NOTHING)
    assert first.died == f"its outcome cannot be sent to another process: {error.__name__}: no message"
    assert second.died.startswith("its outcome cannot be sent to another process: TypeError: ") and third.value == 4


def ends_after(path: Path, fails: bool) -> str:
    """End once there is such a file; ``fails``: with what ends the run."""
    while not path.exists():
        time.sleep(0.01)
    if fails:
        raise OSError(errno.ENOSPC, "no space left")
    return "done"


@pytest.mark.skipif(sys.platform != "linux", reason="a worker must know this module")
def test_what_has_ended_beside_what_ends_the_run_comes_first(tmp_path):
    def watch(busy):
        """Let them end, and wait until all have."""
        if all(worker.began for worker in busy):
            (tmp_path / "go").touch()
            for worker in busy:
                assert worker.pipe.poll(60)

    jobs = [partial(ends_after, tmp_path / "go", fails) for fails in (True, False, False)]
    done = list(run_jobs(jobs, 3, NOTHING, watch=watch))
    assert [each.index for each in done][-1] == 0 and isinstance(done[-1].error, OSError)
    assert sorted(each.value for each in done[:-1]) == ["done", "done"]


def test_processes_end_when_the_caller_stops():
    begin = time.perf_counter()
    with closing(run_jobs([partial(os.getpid), partial(time.sleep, 60)], 2, NOTHING)) as ended:
        worker = next(ended).value
        assert worker != os.getpid()
    assert time.perf_counter() - begin < 40
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_a_job_that_is_skipped_before_its_process_has_started_is_not_run_again():
    """Processes that import everything anew take seconds to start."""

    def skip(busy):
        for worker in busy:
            worker.stop("skipped")

    (done,) = run_jobs([partial(pow, 2, 5)], 1, NOTHING, fresh=True, watch=skip)
    assert (done.value, done.died) == (None, "skipped")
