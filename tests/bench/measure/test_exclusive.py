"""Cells run side by side, but none beside one that measures, which need not wait for the end of any."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from multiprocessing import get_context
from threading import Event

import pytest
import torch

from bench.measure import exclusive as turns
from methods.heads.surgery.shrink import working_copy


class Holder:
    """Another process that takes one of the two kinds of lock and holds it until it is told to let go."""

    def __init__(self, lock: Callable[[], AbstractContextManager]):
        context = get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=self._hold, args=(lock, other), daemon=True)
        self.process.start()

    @staticmethod
    def _hold(lock, pipe) -> None:
        pipe.send("asks")
        with lock():
            pipe.send("holds")
            pipe.recv()

    def asks(self) -> bool:
        """Whether it has got as far as asking for its lock."""
        return self.pipe.recv() == "asks"

    def holds(self, seconds: float) -> bool:
        """Whether it gets its lock within ``seconds``."""
        return self.pipe.poll(seconds)

    def let_go(self) -> None:
        self.pipe.send("go")
        self.process.join()


@pytest.fixture
def holder(place):
    """Starts holders, and ends them."""
    holders = []

    def start(lock) -> Holder:
        holders.append(Holder(lock))
        assert holders[-1].asks()
        return holders[-1]

    yield start
    for one in holders:
        one.process.kill()
        one.process.join()


def test_cells_run_side_by_side_but_none_beside_one_that_measures(holder):
    first, second = holder(turns.beside_others), holder(turns.beside_others)
    assert first.holds(10) and second.holds(10)
    measuring = holder(turns.alone)
    assert not measuring.holds(0.3)
    first.let_go()
    assert not measuring.holds(0.3)
    second.let_go()
    assert measuring.holds(10)
    third, also_measuring = holder(turns.beside_others), holder(turns.alone)
    assert not third.holds(0.3) and not also_measuring.holds(0.3)
    measuring.process.kill()  # the kernel frees the lock of a process that died
    assert third.holds(10)
    third.let_go()
    assert also_measuring.holds(10)


class Measuring:
    """A thread that measures alone, from when it is its turn until it is told to end."""

    def __init__(self, pool):
        self.holds, self.done = Event(), Event()
        self.result = pool.submit(self._measure)

    def _measure(self) -> None:
        with turns.alone():
            self.holds.set()
            self.done.wait(10)

    def end(self) -> None:
        self.done.set()
        self.result.result(timeout=10)


def wait_for(what: Callable[[], bool]) -> bool:
    """Whether ``what`` comes true within ten seconds."""
    until = time.perf_counter() + 10
    while not what() and time.perf_counter() < until:
        time.sleep(0.01)
    return what()


def test_long_work_gives_way_to_all_who_wait_to_measure(place):
    with ThreadPoolExecutor() as pool, turns.beside_others() as turn:
        turn.give_way()  # nobody waits
        assert turn.waited == 0
        first, second = Measuring(pool), Measuring(pool)
        assert not first.holds.wait(0.3) and not second.holds.is_set()
        gone = pool.submit(turn.give_way)
        for _ in range(2):
            assert wait_for(lambda: first.holds.is_set() != second.holds.is_set()) and not gone.done()
            now = first if first.holds.is_set() else second
            now.end()
            now.holds.clear()
        gone.result(timeout=10)
        assert 0 < turn.waited < 10
        third = Measuring(pool)
        assert not third.holds.wait(0.3)  # the place is held again
        pool.submit(turn.give_way)
        assert third.holds.wait(10)
        third.end()
    turn.give_way()  # nothing is held any more


def test_who_begins_to_work_stands_behind_those_who_wait_to_measure(holder):
    working, measuring, next_one = holder(turns.beside_others), holder(turns.alone), None
    assert working.holds(10) and not measuring.holds(0.3)
    next_one = holder(turns.beside_others)
    assert not next_one.holds(0.3)
    working.let_go()
    assert measuring.holds(10) and not next_one.holds(0.3)
    measuring.let_go()
    assert next_one.holds(10)


@torch.no_grad()
def test_each_pass_of_the_model_and_of_its_copies_gives_way(tiny_task, place):
    model, task = tiny_task.model, tiny_task.task
    batch = task.probe(1, torch.device("cpu"))
    with ThreadPoolExecutor() as pool, turns.beside_others() as turn:
        with turn.watching(model), turn.timing(torch.device("cpu")) as seconds:
            begin = time.perf_counter()
            for each in (model, copy.deepcopy(model), working_copy(model)):
                measuring = Measuring(pool)
                assert not measuring.holds.wait(0.3)
                passed = pool.submit(task.logits, each, batch)
                assert measuring.holds.wait(10) and not passed.done()
                time.sleep(0.2)
                measuring.end()
                passed.result(timeout=10)
            lasted = time.perf_counter() - begin
        assert turn.waited >= 0.6 and seconds[0] == pytest.approx(lasted - turn.waited, abs=0.05)
        measuring = Measuring(pool)
        task.logits(model, batch)  # is watched no longer
        assert not measuring.holds.wait(0.3)
        measuring.done.set()
