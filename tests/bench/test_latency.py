"""Latency is measured alone, and every size equally often."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from multiprocessing import get_context
from threading import Event

import pytest
import torch

from bench import latency
from methods.heads import remove_heads


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
    first, second = holder(latency.beside_others), holder(latency.beside_others)
    assert first.holds(10) and second.holds(10)
    measuring = holder(latency.alone)
    assert not measuring.holds(0.3)
    first.let_go()
    assert not measuring.holds(0.3)
    second.let_go()
    assert measuring.holds(10)
    third, also_measuring = holder(latency.beside_others), holder(latency.alone)
    assert not third.holds(0.3) and not also_measuring.holds(0.3)
    measuring.process.kill()  # the kernel frees the lock of a process that died
    assert third.holds(10)
    third.let_go()
    assert also_measuring.holds(10)


def test_long_work_gives_way_to_one_that_waits_to_measure(place):
    holds, done = Event(), Event()

    def measure() -> None:
        with latency.alone():
            holds.set()
            done.wait(10)

    with ThreadPoolExecutor() as pool, latency.beside_others() as give_way:
        assert give_way() < 5  # nobody waits
        measuring = pool.submit(measure)
        assert not holds.wait(0.3)
        waited = pool.submit(give_way)
        assert holds.wait(10) and not waited.done()
        done.set()
        assert waited.result(timeout=10) > 0
        measuring.result(timeout=10)
        holds.clear()
        again = pool.submit(measure)
        assert not holds.wait(0.3)  # the lock is held again
        pool.submit(give_way)
        again.result(timeout=10)


@pytest.fixture
def models(tiny_task) -> dict[int, torch.nn.Module]:
    masks = {removed: torch.arange(8) >= removed for removed in (0, 4, 8)}
    return {removed: remove_heads(tiny_task.model, mask) for removed, mask in masks.items()}


def test_every_size_is_sampled_equally_often_at_batches_of_1_and_32(tiny_task, models):
    got = latency.latency(tiny_task.task, [models], torch.device("cpu"))
    assert set(got["samples"]) == {"1", "32"}
    for samples in got["samples"].values():
        assert {removed: len(s) for removed, s in samples.items()} == dict.fromkeys(("0", "4", "8"), latency.REPEATS)
        assert all(second > 0 for s in samples.values() for second in s)
    assert (got["dtype"], got["device"], got["threads"]) == ("float32", "cpu", torch.get_num_threads())
    assert got["length"].keys() == {"1", "32"} and all(2 < length <= 32 for length in got["length"].values())


def test_repeats_of_all_sizes_are_interleaved(tiny_task, models, monkeypatch):
    seen = []
    names = {id(model): removed for removed, model in models.items()}
    logits = tiny_task.task.logits
    monkeypatch.setattr(
        tiny_task.task,
        "logits",
        lambda model, batch: seen.append((names[id(model)], len(batch.labels))) or logits(model, batch),
    )
    latency.latency(tiny_task.task, [models], torch.device("cpu"))
    once = [(removed, size) for size in (1, 32) for removed in (0, 4, 8)]
    assert seen == once * (latency.WARM_UPS + latency.REPEATS)


def test_a_slow_model_is_sampled_less_often_but_at_least_five_times_and_equally(tiny_task, models, monkeypatch):
    monkeypatch.setattr(latency, "PATIENCE", 0.0)
    got = latency.latency(tiny_task.task, [models], torch.device("cpu"))
    assert {len(s) for samples in got["samples"].values() for s in samples.values()} == {5}


def test_latency_is_taken_at_its_own_levels_whatever_quality_was_asked_for(place):
    assert place.run("--methods", "michel", "--seeds", "1", "--levels", "0.4") == 0
    (record,) = place.records().values()
    assert record["result"]["removed"] == [0, 3, 8]  # of 8 heads
    assert set(record["measured"]["latency"]["samples"]["1"]) == {"0", "2", "4", "6", "7"}
