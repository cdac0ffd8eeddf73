"""Runs that are killed, and runs that share a folder, leave the records of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

FLAGS = ("--methods", "none,random,michel,gnorm", "--seeds", "2", "--finetune", "--jobs", "2")


def strays(place) -> list[str]:
    """Files that should not be: whatever is no record, outcomes, leaderboard, finished model or its lock."""
    usual = {".json", ".safetensors", ".md", ".csv", ".svg", ".lock"}
    files = [path for folder in (place.out, place.cache) for path in folder.rglob("*")]
    return [str(path) for path in files if ".tmp" in path.name or (path.is_file() and path.suffix not in usual)]


def alive(group: int) -> bool:
    """Whether any process of the group still runs (a zombie does not)."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, member = status.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(member) == group and state != "Z":
            return True
    return False


def wait_until(condition, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(condition())


def until_planned(process, jobs_done: int = 0) -> None:
    """Wait until the run has planned its cells, as a kill before that disturbs nothing, and has done some jobs."""
    for line in process.stdout:
        jobs_done -= line.startswith("[")
        if jobs_done <= 0 and ("to do" in line or line.startswith("[")):
            return


@pytest.fixture
def undisturbed(place):
    """Results of a run in peace, on one process."""
    peace = place.folder / "peace"
    assert place.run(*FLAGS, "--jobs", "1", out=peace) == 0
    return place.results(peace)


def test_kills_at_random_moments_change_no_record(place, undisturbed, tmp_path):
    draw = random.Random(0)
    place.folder = tmp_path / "disturbed"
    place.folder.mkdir()
    for jobs_done, whole_group in ((1, False), (1, True), (0, False), (2, True)):
        process = place.start(*FLAGS, "--jobs", "1" if whole_group else "2")
        until_planned(process, jobs_done)
        time.sleep(draw.uniform(0, 0.7))
        if whole_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        assert wait_until(lambda group=process.pid: not alive(group)), "workers outlive their run"
        process.communicate()
    process = place.start(*FLAGS, "--jobs", "1")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert place.results() == undisturbed
    assert strays(place) == []


def test_two_runs_into_one_folder_at_once_both_finish(place, undisturbed, tmp_path):
    place.folder = tmp_path / "shared"
    place.folder.mkdir()
    processes = [place.start(*FLAGS, "--jobs", "1") for _ in range(2)]
    for process in processes:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        assert "Traceback" not in output
    assert place.results() == undisturbed
    assert strays(place) == []


def test_an_interrupted_run_says_so_and_ends_its_workers(place):
    process = place.start(*FLAGS)
    until_planned(process, jobs_done=2)  # of ten
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output.endswith("headbench: stopped; finished cells are kept: run the command again to continue\n")
    assert "Traceback" not in output
    assert wait_until(lambda: not alive(process.pid))
