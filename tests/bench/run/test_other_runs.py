"""Runs of the same user know of each other, and none waits for another."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.records.store import finished, read_current
from bench.run.other_runs import announced, other_runs

HOLD = "from bench.run.other_runs import announced\nwith announced():\n    print('at work', flush=True)\n    input()"


@pytest.fixture
def holding(place):
    """Start processes that are at work until they read a line."""
    started = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place.tree
        )
        started.append(process)
        assert process.stdout.readline() == "at work\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_another_process_is_known_while_it_is_at_work_also_if_it_is_killed(place, holding):
    with announced():
        assert other_runs() == []  # its own
        first, second = holding(), holding()
        assert len(other_runs()) == 2 and any(f"process {first.pid}, since" in each for each in other_runs())
        first.communicate("\n")
        second.kill()
        second.wait()
        assert other_runs() == []


def test_a_run_beside_another_ends_and_records_that_it_was_not_alone(place, holding, capsys):
    assert place.run("--methods", "none") == 0
    (record,) = finished(read_current(place.out)[0])
    assert record.measured.latency.alone is True
    other = holding()
    assert place.run("--methods", "none", out=place.folder / "beside") == 0
    (record,) = finished(read_current(place.folder / "beside")[0])
    assert record.measured.latency.alone is False
    assert f"another run is at work, and may slow it down (process {other.pid}" in capsys.readouterr().out
