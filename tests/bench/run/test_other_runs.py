"""Runs of the same user know of each other, and none waits for another."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys

import pytest

from bench.records.storage.current import finished, read_current
from bench.run.other_runs import other_runs, registered, this_run

CONTAINER = "import os, socket\nos.getpid = lambda: {pid}\nsocket.gethostname = lambda: 'container.local'\n"
HOLD = "from bench.run.other_runs import registered\nwith registered():\n    print('at work', flush=True)\n    input()"


@pytest.fixture
def holding(place):
    """Start processes that are at work until they read a line."""
    started = []

    def start(code: str = HOLD) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place.tree
        )
        started.append(process)
        assert process.stdout.readline() == "at work\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_run_is_known_though_another_looked_while_it_was_announced(place, monkeypatch):
    """The other one takes the file, which is not locked yet, for one left behind."""
    lock, looked = fcntl.flock, []

    def lock_late(file, how):
        if how & fcntl.LOCK_EX and not looked:
            looked.append(other_runs("another-1"))
        return lock(file, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with registered():
        assert looked == [[]] and len(other_runs("another-1")) == 1


def test_a_run_with_the_name_of_another_neither_waits_nor_takes_its_place(place, holding, monkeypatch):
    """As in containers, each with a process of the same number on a machine of the same name."""
    monkeypatch.setattr(socket, "gethostname", lambda: "container.local")
    first = holding(CONTAINER.format(pid=os.getpid()) + HOLD)
    with registered():
        (said,) = other_runs()
        assert said.startswith(f"process {os.getpid()}, since") and other_runs(this_run()) == [said]
        with registered(this_run()):  # one of its own on another such node
            assert other_runs() == [said]
    first.communicate("\n")
    assert other_runs() == []


def test_a_process_that_was_stopped_while_it_looked_is_not_waited_for(place, monkeypatch):
    lock, held = fcntl.flock, []

    def held_by_another(file, how):
        assert how & fcntl.LOCK_NB, "it waits"
        if how & fcntl.LOCK_EX and not held:
            (path,) = place.folder.glob("headbench-*/*.run")
            held.append(path.open())
            lock(held[0], fcntl.LOCK_SH)
        return lock(file, how)

    monkeypatch.setattr(fcntl, "flock", held_by_another)
    with registered():
        assert len(other_runs("another-1")) == 1
        assert len(list(place.folder.glob("headbench-*/*.run"))) == 1
    held[0].close()


def test_another_process_is_known_while_it_is_at_work_also_if_it_is_killed(place, holding):
    with registered():
        assert other_runs() == []  # its own
        first, second = holding(), holding()
        assert len(other_runs()) == 2 and any(f"process {first.pid}, since" in each for each in other_runs())
        first.communicate("\n")
        second.kill()
        second.wait()
        assert other_runs() == []


def link_elsewhere(folder, elsewhere):
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


def open_to_all(folder, elsewhere):
    folder.mkdir()
    folder.chmod(0o777)


def file_in_the_way(folder, elsewhere):
    folder.write_text("mine")


@pytest.mark.parametrize("make", [link_elsewhere, open_to_all, file_in_the_way])
def test_a_folder_that_others_may_have_made_is_left_alone(place, make):
    folder, elsewhere = place.folder / f"headbench-{os.getuid()}", place.folder / "elsewhere"
    make(folder, elsewhere)
    before = sorted(place.folder.rglob("*"))
    with registered():
        assert other_runs() is None and sorted(place.folder.rglob("*")) == before
        if folder.is_dir():
            (folder / "them.1.run").write_text("process 1")
            assert other_runs() is None and (folder / "them.1.run").exists()


def test_a_folder_of_another_user_is_left_alone(place, monkeypatch):
    with registered():
        pass
    (folder,) = place.folder.glob("headbench-*")
    another = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: another)
    folder.rename(place.folder / f"headbench-{os.getuid()}")
    with registered():
        assert not list(place.folder.rglob("*.run"))


def test_a_run_beside_another_ends_and_records_that_it_was_not_alone(place, holding, capsys):
    place.timed = True
    assert place.run("--methods", "none") == 0
    (record,) = finished(read_current(place.out)[0])
    assert record.measured.latency.alone is True
    other = holding()
    assert place.run("--methods", "none", out=place.folder / "beside") == 0
    (record,) = finished(read_current(place.folder / "beside")[0])
    assert record.measured.latency.alone is False
    assert f"another run is at work, and may slow it down (process {other.pid}" in capsys.readouterr().out


def test_a_run_that_starts_while_a_cell_is_timed_is_recorded(place, monkeypatch):
    place.timed = True
    looks = iter([[], ["process 1"]])
    monkeypatch.setattr("bench.run.jobs.other_runs", lambda run: next(looks))
    assert place.run("--methods", "none") == 0
    (record,) = finished(read_current(place.out)[0])
    assert record.measured.latency.alone is False
