import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from bench.records.errors import InputError
from bench.report.parts import made


@pytest.mark.parametrize("processes", [None, 1, 3])
def test_parts_come_in_their_order(processes):
    parts = [partial(_after, 0.05 * (5 - place), place) for place in range(5)]
    assert made(parts, processes) == list(range(5))


@pytest.mark.parametrize("processes", [1, 3])
def test_what_a_part_raises_is_raised(processes):
    with pytest.raises(InputError, match="the third"):
        made([partial(_after, 0, 0), partial(_after, 0.1, 1), _fails, partial(_after, 0, 3)], processes)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_each_of_several_processes_makes_some():
    assert len(set(made([_process] * 4, 2)) - {os.getpid()}) == 2
    assert made([_process] * 2, 1) == [os.getpid()] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_processes_end_with_the_one_that_started_them():
    code = """
import os, time
from bench.report.parts import made
def part():
    print(os.getpid(), flush=True)
    time.sleep(60)
made([part, part], 2)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    numbers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    parent.wait()
    until = time.time() + 20
    while time.time() < until and any(map(_alive, numbers)):
        time.sleep(0.05)
    assert not any(map(_alive, numbers))


def _after(seconds, value):
    time.sleep(seconds)
    return value


def _fails():
    raise InputError("the third")


def _process():
    time.sleep(0.3)
    return os.getpid()


def _alive(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
