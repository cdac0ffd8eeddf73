"""A run beside other jobs of a cluster: it uses what they leave, and waits for none while there is room elsewhere."""

from __future__ import annotations

import importlib.util
from itertools import chain, repeat

import pytest

from tests.fixtures.forked import wait_until

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: headbench[cluster]"),
    pytest.mark.slow,
]
FLAGS = ("--methods", "none,random,michel")
MOST = 300.0  # seconds for a few small cells, on a machine with other work


def test_cells_go_where_nothing_else_runs(place, nodes):
    with nodes.used_by_others(2):
        dry = nodes.run(place, *FLAGS, "--dry-run")
        assert dry.result() == 0 and "on 1 slot of 3 nodes, 2 more used by others (cpu)" in dry.output.read_text()
        run = nodes.run(place, *FLAGS)
        assert run.result(MOST) == 0, run.output.read_text()
    assert len(place.records()) == 3


def test_a_cell_that_others_were_quicker_than_is_taken_back(place, nodes, monkeypatch):
    """The first look shows nothing of the others, as if they came a moment later."""

    def quicker() -> None:
        from bench.run.cluster import flights
        from bench.run.cluster import nodes as module

        looks = chain([dict], repeat(module.available_resources_per_node))
        monkeypatch.setattr(module, "available_resources_per_node", lambda: next(looks)())
        monkeypatch.setattr(flights, "WAIT", 3.0)

    with nodes.used_by_others(2):
        run = nodes.run(place, *FLAGS, before=quicker)
        assert run.result(MOST) == 0, run.output.read_text()
    assert len(place.records()) == 3


def test_a_run_has_its_turn_where_others_take_every_slot_that_is_left(place, nodes):
    with nodes.used_by_others(3, seconds=1.0) as others:
        run = nodes.run(place, *FLAGS)
        assert run.result(MOST) == 0, run.output.read_text()
        assert others.poll() is None
    assert len(place.records()) == 3


def test_a_machine_that_others_use_is_waited_for_before_a_cell_is_timed(place, nodes):
    """All three nodes are on this one."""
    place.timed = True
    with nodes.used_by_others(1):
        run = nodes.run(place, "--methods", "none")
        assert wait_until(lambda: "timing the smaller models" in run.output.read_text(), MOST), run.output.read_text()
        assert not wait_until(run.ended, 10)
        assert place.records()["none/seed0"]["measured"]["latency"] is None
    assert run.result(MOST) == 0, run.output.read_text()
    assert place.records()["none/seed0"]["measured"]["latency"]
