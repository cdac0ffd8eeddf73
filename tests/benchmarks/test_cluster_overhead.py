"""What a cluster adds to a cell, and how near its schedule comes to the best one."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from tests.fixtures.runs import ROOT

CELLS = 5000


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: headbench[cluster]")
def test_a_cell_costs_at_most_30_ms_more_on_a_cluster_and_the_driver_does_not_grow(benchmark, tell):
    def run() -> dict[str, tuple[float, int]]:
        command = [sys.executable, "-c", f"from tests.benchmarks import noop; noop.main({CELLS})"]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        return json.loads(done.stdout.splitlines()[-1])

    found = benchmark.pedantic(run, rounds=1)
    (local, _), (ray, grown) = found["local"], found["ray"]
    tell("processor milliseconds of a cell that a cluster adds", 1000 * (ray - local))
    tell("MB that the driver grows by", grown / 2**20)
    assert ray - local < 0.030 and grown < 32 * 2**20


def test_the_schedule_takes_at_most_an_eighth_longer_than_the_bound(monkeypatch, benchmark, tell):
    monkeypatch.syspath_prepend(ROOT / "docs" / "studies")
    import cluster_growth

    found = benchmark.pedantic(cluster_growth.growth, rounds=1)
    worst = max(each.makespan / each.bound for each in found)
    tell("longest makespan over the bound", worst)
    assert worst < 1.125
