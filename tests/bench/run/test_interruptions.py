"""Runs that are killed, and runs that share a folder, leave the records of an undisturbed run."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fixtures.forked import Forked, alive, strays, wait_until
from tests.fixtures.runs import Place
from tests.fixtures.slow import slow_cases

# A few in the ordinary tests; many with, say, HEADBENCH_KILLS=100,40.
KILLS_OF_A_RUN, KILLS_OF_A_WORKER = map(int, os.environ.get("HEADBENCH_KILLS", "4,2").split(","))

FLAGS = ("--methods", "none,random,michel,gnorm", "--seeds", "2", "--finetune", "--jobs", "2")


@dataclass
class Peace:
    """What a run in peace leaves, and the seconds it takes."""

    results: dict[str, dict[str, Any]]
    seconds: float


@pytest.fixture
def peace(place) -> Peace:
    """A run in peace, on one process."""
    out, begin = place.folder / "peace", time.monotonic()
    assert place.run(*FLAGS, "--jobs", "1", out=out) == 0
    return Peace(place.results(out), time.monotonic() - begin)


def kill_at_random_moments(place: Place, peace: Peace, draw: random.Random, kills: int, kill) -> None:
    """Kill ``kills`` times in all; each run continues what the one before left, and is checked once it has ended.

    kill: given a run that is at work, kills something of it, and says whether it did.
    """
    while kills:
        run = Forked(place, *FLAGS, "--retry-failed", "--jobs", draw.choice("12"))
        while kills and not wait_until(run.ended, draw.uniform(0, peace.seconds)):
            kills -= kill(run)
        assert wait_until(run.ended, 600) and wait_until(lambda of=run: not alive(of.pid), 2), "workers outlive a run"
        assert run.code in (0, 1, -signal.SIGKILL)
        if run.code == 1 or not kills:  # a cell whose process was killed has failed
            run = Forked(place, *FLAGS, "--retry-failed", "--jobs", "1")
            assert run.result() == 0
        if run.code == 0:
            assert place.results() == peace.results
            assert strays(place) == []
            shutil.rmtree(place.out)
            shutil.rmtree(place.cache)


@pytest.mark.slow
def test_kills_of_the_run_change_no_record(place, peace, tmp_path):
    place.folder = tmp_path / "disturbed"
    place.folder.mkdir()
    draw = random.Random(0)

    def kill(run: Forked) -> bool:
        (os.killpg if draw.random() < 0.3 else os.kill)(run.pid, signal.SIGKILL)
        return wait_until(run.ended)

    kill_at_random_moments(place, peace, draw, KILLS_OF_A_RUN, kill)


@pytest.mark.slow
def test_kills_of_workers_fail_their_cells_which_can_be_run_again(place, peace, tmp_path):
    place.folder = tmp_path / "disturbed"
    place.folder.mkdir()
    draw = random.Random(1)

    def kill(run: Forked) -> bool:
        if not (workers := run.workers()):
            return False
        with suppress(ProcessLookupError):
            os.kill(draw.choice(workers), signal.SIGKILL)
        return True

    kill_at_random_moments(place, peace, draw, KILLS_OF_A_WORKER, kill)


@pytest.mark.parametrize("flags", [("--methods", "none,michel", "--finetune"), *slow_cases(((*FLAGS, "--jobs", "1"),))])
def test_two_runs_into_one_folder_at_once_both_finish(place, tmp_path, flags):
    assert place.run(*flags, out=place.folder / "peace") == 0
    results = place.results(place.folder / "peace")
    place.folder = tmp_path / "shared"
    place.folder.mkdir()
    runs = [Forked(place, *flags) for _ in range(2)]
    assert [run.result(300) for run in runs] == [0, 0]
    assert place.results() == results
    assert strays(place) == []


def test_an_interrupted_run_says_so_and_ends_its_workers(place):
    run = Forked(place, *FLAGS, output=place.folder / "output")
    assert wait_until(lambda: "[2/" in run.output.read_text())  # of ten jobs
    os.kill(run.pid, signal.SIGINT)
    assert run.result(60) == 130
    output = run.output.read_text()
    assert output.endswith("headbench: stopped; finished cells are kept: run the command again to continue\n")
    assert "Traceback" not in output
    assert wait_until(lambda: not alive(run.pid))
