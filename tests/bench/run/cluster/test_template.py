"""The child of one of Ray's processes takes one job after the other."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.measure import isolation
from bench.run.cluster import remote
from bench.run.cluster.code import code
from bench.run.cluster.template import serve
from bench.run.jobs import Unreadable
from tasks.request import TaskSpec


@pytest.fixture
def template() -> Iterator[Connection]:
    """The pipe to one, forked from this process."""
    context = get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, 1, "run"))
    process.start()
    there.close()
    yield here
    process.kill()
    process.join()


def test_jobs_are_run_one_after_the_other_in_one_process(template):
    for number in range(4):
        template.send((pickle.dumps(Unreadable(f"job {number}")), None, {}))
        assert template.poll(60), "it has not answered"
        kind, content, crashed = template.recv()
        done = pickle.loads(content)
        assert (kind, done.value, crashed) == ("done", f"job {number}", False), done


class ChangesItsProcess(Unreadable):
    def __call__(self) -> str:
        isolation._changed = True
        return super().__call__()


class EndsItsProcessLater(Unreadable):
    def __call__(self) -> str:
        threading.Timer(0.2, os._exit, [3]).start()
        return super().__call__()


@pytest.mark.parametrize("first", [ChangesItsProcess, EndsItsProcessLater])
def test_no_job_pays_for_what_an_earlier_one_left_in_its_process(template, first):
    for job in (first("first"), Unreadable("second"), Unreadable("third")):
        template.send((pickle.dumps(job), None, {}))
        assert template.poll(60), "it has not answered"
        _, content, crashed = template.recv()
        assert (pickle.loads(content).value, crashed) == (job.reason, False)
        time.sleep(0.4)  # its process has ended


@dataclass(frozen=True)
class Device:
    """As much of a cell as a job needs."""

    device: str
    task: TaskSpec


@dataclass(frozen=True)
class TellsItsProcess:
    cell: Device
    cache: Path | None = None

    def __call__(self) -> int:
        return os.getpid()


@pytest.mark.parametrize(("device", "stays"), [("cpu", True), ("cuda", False)])
def test_a_process_that_used_a_gpu_has_ended_when_its_job_is_told_to_be_done(template, device, stays):
    """It holds memory of the GPU, which goes to another job."""
    processes = []
    for _ in range(2):
        template.send((pickle.dumps(TellsItsProcess(Device(device, TaskSpec(task="classification")))), None, {}))
        assert template.poll(60), "it has not answered"
        processes.append(pickle.loads(template.recv()[1]).value)
        assert Path(f"/proc/{processes[-1]}").exists() == stays
    assert (processes[0] == processes[1]) == stays


@pytest.mark.parametrize("size", [0, 2**21], ids=["small", "large"])  # the latter is more than it takes unread
@pytest.mark.parametrize(
    ("broken", "answer"),
    [
        (
            "raise ImportError('libcudart.so.12:\\n no such file')",
            remote.Answer(unable="ImportError: libcudart.so.12: no such file"),
        ),
        ("import os; os._exit(3)", remote.Answer(crashed=True)),
    ],
    ids=["raises", "ends"],
)
def test_a_node_on_which_torch_does_not_load(tmp_path, monkeypatch, broken, answer, size):
    (tmp_path / "torch.py").write_text(broken)
    monkeypatch.syspath_prepend(str(tmp_path))
    ticket = remote.Ticket(0, bytes(size), "run", code(), 1, tmp_path / "cache", "cpu", "", "", (), {})
    board = SimpleNamespace(tell=SimpleNamespace(remote=lambda *told: None))
    try:
        assert remote.take(ticket, board) == answer
    finally:
        if remote._child is not None:
            remote._child.end()
            remote._child = None
