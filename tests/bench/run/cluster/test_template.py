"""The child of one of Ray's processes takes one job after the other."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pytest

from bench.run.cluster.template import main
from bench.run.jobs import Unreadable


@pytest.fixture
def template() -> Iterator[Connection]:
    """The pipe to one, forked from this process."""
    context = get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=main, args=(there, 1, "run"))
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
