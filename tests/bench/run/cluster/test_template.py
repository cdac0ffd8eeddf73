"""The child of one of Ray's processes takes one job after the other."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection

import pytest

from bench.run.cluster.template import serve
from bench.run.jobs import Unreadable
from tests.fixtures.runs import ROOT


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


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("raise ImportError('libcudart.so.12:\\n no such file')", "ImportError: libcudart.so.12: no such file"),
        ("import os; os._exit(3)", None),  # without a word: its process has crashed
    ],
)
def test_why_none_starts_is_said(tmp_path, broken, why):
    """As where torch does not load."""
    (tmp_path / "torch.py").write_text(broken)
    here, there = Pipe()
    command = [sys.executable, "-m", "bench.run.cluster.child", str(there.fileno()), "1", "run"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    with subprocess.Popen(command, env=environment, pass_fds=[there.fileno()], stderr=subprocess.DEVNULL) as process:
        there.close()
        assert process.wait(60) != 0
    if why:
        assert here.recv() == ("unable", why)
    with pytest.raises(EOFError):
        here.recv()
