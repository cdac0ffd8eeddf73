"""What an engine costs: cells that do nothing, which processes on a cluster import from here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.cli.requests import DEFAULT_SUITE
from bench.run.cluster.connection import connected
from bench.run.engines import Engine, LocalEngine
from bench.run.jobs import CellJob, start_process
from bench.run.options import ClusterOptions
from bench.suites.cells import Cell
from bench.suites.parse import parse_methods
from tasks.request import TaskSpec

WARM = 0.1  # share of the cells after which it is measured
SLOTS = 2


@dataclass(frozen=True)
class Noop(CellJob):
    """A cell that does nothing."""

    def __call__(self):
        """Nothing."""


def cells(number: int) -> list[Noop]:
    (method,) = parse_methods("none")
    task = TaskSpec(task="mnli")
    return [
        Noop(Cell(task, DEFAULT_SUITE, "model", method, seed, (0, 1), 128, 1.0, "cpu", str(seed)), Path())
        for seed in range(number)
    ]


def used(process: psutil.Process) -> float:
    """Processor seconds of a process and of all below it, those that have ended included."""
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def measured(engine: Engine, jobs: list[Noop]) -> tuple[float, int]:
    """Processor seconds of a cell, and bytes that this process grows by between the first cells and the last."""
    this, first = psutil.Process(), int(WARM * len(jobs))
    seconds, size = 0.0, 0
    for number, done in enumerate(engine.run(jobs, lambda busy: None), 1):
        assert not done.died and done.error is None, done
        if number == first:
            seconds, size = used(this), this.memory_info().rss
        if number == len(jobs):
            seconds, size = used(this) - seconds, this.memory_info().rss - size
    return seconds / (len(jobs) - first), size


def main(number: int) -> None:
    """Print JSON: of each engine, processor seconds of a cell in all processes, and bytes that the driver grows by."""
    start_process()
    jobs = cells(number)
    found = {"local": measured(LocalEngine(SLOTS, fresh=False), jobs)}
    options = ClusterOptions()
    with connected(options, SLOTS):
        from bench.run.cluster.engine import RayEngine

        engine = RayEngine(options, Path("unused"), shared=True, limit=None, weigh=lambda job: 1.0)
        found["ray"] = measured(engine, jobs)
    print(json.dumps(found))
