"""A signal during imports, or later, ends the command with one line; workers end with it, however it ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures.slow import slow_cases

ENDS = [(signal.SIGINT, 130, "stopped"), (signal.SIGTERM, 143, "ended by SIGTERM")]
BUSY = """
import os, re, time
from methods import scorer

@scorer("busy", source="test")
def busy(view):
    os.write(1, f"worker {os.getpid()}\\n".encode())  # at once, as two workers may write together
    re.match("(a+)+$", "a" * 64 + "b")  # for years, without ever letting another thread run
"""


def handles(process: subprocess.Popen[str], number: int) -> bool:
    """Whether the process has a handler for the signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return bool(int(status.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1)


def wait_until(condition, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())


def running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.parametrize(("number", "code", "told"), ENDS)
@pytest.mark.parametrize("moment", [0.0, 1.5, *slow_cases(0.15, 0.6, 3)])
def test_a_signal_while_modules_are_imported(place, number, code, told, moment):
    process = place.start("--methods", "none", "--jobs", "1")
    # Python itself handles Ctrl-C, until we do; SIGTERM is handled by nobody before us.
    assert wait_until(lambda: handles(process, signal.SIGTERM))
    time.sleep(moment * random.Random(moment).uniform(0.5, 1))
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code, output
    last = output.strip().splitlines()[-1]
    assert last.startswith(f"headbench: {told}") and "Traceback" not in output, output
    assert place.files() == {} and not list(place.folder.glob("headbench-*/*.run"))


ENDING = "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)\n"
COMMAND = """
import sys
from bench.__main__ import command
from bench.cli import check
from bench.records.storage import current
from bench.run import check_against_records, runner

def importing(*_, **__):
    import ending

check.check = lambda *_: 0
current.read_current = check_against_records.read_current = lambda *_: None
check_against_records.SUITE, *sys.argv = sys.argv[1:]
check_against_records.CellJob = runner.states_of = importing
command()
"""


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["check", "run"])
def test_no_temporary_folder_stays_of_a_signal_while_modules_are_imported(place, verb):
    (place.folder / "ending.py").write_text(ENDING)
    (suite := place.folder / "tiny.toml").write_text(f'seeds = 1\nlevels = "0.5"\nmethods = "none"\n{place.task()}')
    arguments = ["check", "none", "--baseline", "x"]
    if verb == "run":
        arguments = place.arguments("--methods", "none", "--dry-run", "--no-cache")
    paths = os.pathsep.join(map(str, [place.tree, place.folder]))
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, str(suite), "headbench", *arguments],
        env=os.environ | {"PYTHONPATH": paths, "TMPDIR": str(place.folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 143 and "ended by SIGTERM" in done.stderr, done.stderr
    assert not list(place.folder.glob("headbench-*"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process that lets no other thread run")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_within_two_seconds_also_if_busy(place, package, number):
    place.path.append(package(BUSY))
    process = place.start("--methods", "busy", "--seeds", "2", "--jobs", "2")
    workers: list[int] = []
    while len(workers) < 2 and (line := process.stdout.readline()):
        workers += [int(line.split()[1])] if line.startswith("worker ") else []
    assert len(workers) == 2, process.communicate()
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        process.send_signal(number)
        assert wait_until(lambda: not any(map(running, workers)), 2.0)
        process.communicate(timeout=60)
    finally:
        for each in load:
            each.kill()
            each.wait()
