import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from bench.records.errors import InputError
from bench.report.parts import run_in_processes
from tests.fixtures.slow import slow_cases

BEGINNING = "os.register_at_fork(after_in_child=lambda: time.sleep(1))"
ENDING = """
terminate = BaseProcess.terminate
BaseProcess.terminate = lambda process: (terminate(process), time.sleep(0.5))
"""


@pytest.mark.parametrize("processes", [None, 1, 3])
def test_parts_come_in_their_order(processes):
    parts = [partial(_after, 0.05 * (5 - place), place) for place in range(5)]
    assert run_in_processes(parts, processes) == list(range(5))


@pytest.mark.parametrize("processes", [1, 3])
def test_what_a_part_raises_is_raised(processes):
    with pytest.raises(InputError, match="the third"):
        run_in_processes([partial(_after, 0, 0), partial(_after, 0.1, 1), _fails, partial(_after, 0, 3)], processes)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_a_process_that_is_killed_is_one_error():
    with pytest.raises(ChildProcessError, match="ended early"):
        run_in_processes([partial(_after, 30, 0), _is_killed], 2)
    with pytest.raises(InputError) as caught:
        run_in_processes([_fails, _fails], 2)
    assert "in _fails" in caught.value.__notes__[0]  # where it was raised


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_each_of_several_processes_makes_some():
    assert len(set(run_in_processes([_process] * 4, 2)) - {os.getpid()}) == 2
    assert run_in_processes([_process] * 2, 1) == [os.getpid()] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_processes_end_with_the_one_that_started_them():
    code = """
import os, time
from bench.report.parts import run_in_processes
def part():
    os.write(1, f"{os.getpid()}\\n".encode())  # at once, as two may write together
    time.sleep(60)
run_in_processes([part, part], 2)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    numbers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    parent.wait()
    until = time.time() + 20
    while time.time() < until and any(map(_alive, numbers)):
        time.sleep(0.05)
    assert not any(map(_alive, numbers))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
@pytest.mark.parametrize(
    ("number", "code", "slow"),
    [
        (signal.SIGTERM, 143, BEGINNING),
        *slow_cases((signal.SIGINT, 130, ENDING), (signal.SIGINT, 130, BEGINNING), (signal.SIGTERM, 143, ENDING)),
    ],
)
def test_a_signal_while_processes_are_at_work_is_told_in_one_line(number, code, slow):
    """Also where a busy machine lets another process run before one begins, and after it was told to end."""
    program = f"""
import os, signal, sys, threading, time
from multiprocessing.process import BaseProcess
import bench.report.write
from bench.__main__ import command
from bench.report.parts import run_in_processes
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where tests run in the background
{slow}
def report(*_):
    threading.Timer(0.5, os.kill, (os.getpid(), {int(number)})).start()
    run_in_processes([lambda: os.write(1, b"%d " % os.getpid()) and time.sleep(60)] * 9, 2)
bench.report.write.report = report
sys.argv[1:] = ["report", "x"]
command()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert done.stderr.strip() == f"headbench: {'ended by SIGTERM' if code == 143 else 'stopped'}"
    assert not any(map(_alive, map(int, done.stdout.split())))


def _after(seconds, value):
    time.sleep(seconds)
    return value


def _fails():
    raise InputError("the third")


def _is_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def _process():
    time.sleep(0.3)
    return os.getpid()


def _alive(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
