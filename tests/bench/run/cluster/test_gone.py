"""A cluster that ends just before Ray is told of the next jobs: there it would wait a minute, and end the process."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket

import pytest

from tests.fixtures.forked import strays, wait_until

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: headbench[cluster]"),
    pytest.mark.slow,
]


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def test_a_cluster_that_goes_between_two_phases_is_one_line(place, nodes, monkeypatch):
    place.timed = True  # in a phase of its own

    def ends_with_the_first() -> None:
        from bench.run.cluster.phase import ClusterPhase

        cancel = ClusterPhase.cancel

        def cancel_and_end(phase: ClusterPhase) -> None:
            cancel(phase)
            os.kill(nodes.head, signal.SIGKILL)
            # On a busy machine its port is open for a moment longer.
            assert wait_until(lambda: not _listens(nodes.address), 60)

        monkeypatch.setattr(ClusterPhase, "cancel", cancel_and_end)

    run = nodes.run(place, "--methods", "none,random", before=ends_with_the_first)
    assert run.result(300) == 2, run.output.read_text()
    said = run.output.read_text().splitlines()[-1]
    assert said.startswith(f"headbench: error: the cluster at {nodes.address} is gone (")
    assert said.endswith("; finished cells are kept: run the command again to continue")
    assert len(place.records()) == 2 and strays(place) == []
