"""Jobs whose process ends by itself run again elsewhere, so that no bad node and no bad method costs the others."""

from __future__ import annotations

import heapq
import importlib.util
import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.run.cluster.placement import Node, Queue, free
from bench.run.cluster.waiting import IN_A_ROW, Waiting
from tests.fixtures.runs import Place

TRIES = 3


@dataclass(frozen=True)
class Job:
    name: int
    needs: Job | None = None


@dataclass(frozen=True)
class AtWork:
    index: int
    node: str


@dataclass
class Simulated:
    """Runs of jobs on nodes, some of which crash all that they are given, as do some of the jobs wherever they run."""

    nodes: list[Node]
    bad_nodes: set[str]
    bad_jobs: set[int]
    draw: random.Random

    @property
    def open_ones(self) -> set[str]:
        return {node.id for node in self.nodes if node.taken < node.slots}

    def run(self, jobs: int) -> tuple[Counter[str], list[int], Counter[str]]:
        """How often each node crashed a good job, the jobs that failed, and how many ended on each node."""
        waiting = Waiting(
            Queue([Job(number) for number in range(jobs)], [self.draw.uniform(1, 9) for _ in range(jobs)])
        )
        heap: list[tuple[float, int, AtWork]] = []
        now, sent, crashes, failed, ended = 0.0, 0, Counter[str](), [], Counter[str]()
        while waiting or heap:
            while places := free(self.nodes, [each for _, _, each in heap], apart=False, limit=10**9):
                if (taken := waiting.next(places, self.nodes, self.open_ones)) is None:
                    break
                index, node = taken
                bad = node.id in self.bad_nodes or index in self.bad_jobs
                sent += 1
                takes = self.draw.uniform(0.1, 0.2) if bad else self.draw.uniform(1, 9)
                heapq.heappush(heap, (now + takes, sent, AtWork(index, node.id)))
            assert heap, "all wait, for nobody"
            now, _, flight = heapq.heappop(heap)
            if flight.node not in self.bad_nodes and flight.index not in self.bad_jobs:
                waiting.ended(flight.index, flight.node, well=True)
                ended[flight.node] += 1
                continue
            crashes[flight.node] += flight.index not in self.bad_jobs
            if waiting.crashed(flight.index, flight.node, TRIES) >= TRIES:
                waiting.ended(flight.index, flight.node, well=False)
                failed.append(flight.index)
        return crashes, failed, ended


@given(
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(1, 60),
    st.integers(0, 9),
)
def test_only_bad_jobs_fail_where_two_nodes_at_most_are_bad(seed, good, bad, held, number, bad_jobs):
    """Others may hold all of some nodes for ever."""
    draw = random.Random(seed)
    nodes = [Node(name, name, draw.randint(1, 4), 4) for name in "abcdef"[: good + bad]]
    nodes += [Node(name, name, 2, 2, taken=2) for name in "xyz"[:held]]
    faulty = set(draw.sample(range(number), min(bad_jobs, number)))
    broken = {node.id for node in draw.sample(nodes[: good + bad], bad)}
    _, failed, ended = Simulated(nodes, broken, faulty, draw).run(number)
    assert set(failed) == faulty and len(failed) == len(faulty)
    assert ended.total() == number - len(faulty) and not broken & ended.keys()


def test_a_node_that_crashes_all_is_soon_given_no_more():
    nodes = [Node("good", "first", 4, 4), Node("bad", "second", 4, 4)]
    crashes, failed, ended = Simulated(nodes, {"bad"}, set(), random.Random(0)).run(200)
    assert not failed and ended == {"good": 200}
    assert crashes["bad"] < IN_A_ROW + nodes[1].slots  # those that were at work there when it was clear


def test_bad_jobs_keep_no_node_from_work():
    nodes = [Node("a", "first", 2, 2), Node("b", "second", 2, 2)]
    _, failed, ended = Simulated(nodes, set(), set(range(0, 100, 2)), random.Random(0)).run(100)
    assert sorted(failed) == list(range(0, 100, 2))
    assert min(ended.values()) > 15, ended


@pytest.mark.parametrize("bad", [1, 3])
def test_no_job_waits_for_a_node_that_others_hold(bad):
    nodes = [Node("idle", "first", 1, 1), Node("held", "second", 1, 1, taken=1)]
    _, failed, ended = Simulated(nodes, set(), set(range(bad)), random.Random(0)).run(100)
    assert sorted(failed) == list(range(bad)) and ended == {"idle": 100 - bad}


def test_no_try_is_wasted_on_a_node_that_crashes_all():
    """Which other jobs have shown, while the job has not been there."""
    nodes = [Node(name, name, 1, 1) for name in "abc"]
    waiting = Waiting(Queue([Job(number) for number in range(8)], [1.0] * 8))
    for index, node in enumerate("abbbc"):
        waiting.crashed(index, node, TRIES)
    assert waiting.avoided(nodes, set("abc")) == {"b"} and waiting.avoided(nodes, {"b"}) == set()
    assert waiting.fit(0, nodes, set("abc")) == {"c"}  # no node is without doubt
    assert waiting.fit(0, nodes[:2], set("ab")) == {"a"}  # where it crashed itself
    assert waiting.fit(0, nodes, {"b"}) == set("abc")
    assert waiting.fit(None, nodes, set("abc")) == set("ac")
    for _ in range(TRIES - 1):
        waiting.crashed(4, "c", TRIES)
    assert waiting.fit(0, nodes, set("abc")) == {"c"} and not waiting.in_doubt("c")


def test_a_job_that_crashed_goes_where_none_has_and_waits_for_it():
    nodes = [Node(name, name, 1, 1) for name in "abc"]
    every = set("abc")
    waiting = Waiting(Queue([Job(number) for number in range(4)], [1.0] * 4))
    assert [waiting.next([node], nodes, every) for node in nodes] == list(enumerate(nodes))
    assert waiting.crashed(0, "a", TRIES) == waiting.crashed(1, "b", TRIES) == 1
    assert waiting.next(nodes[:2], nodes, every) == (3, nodes[0])  # another one, though the two have been waiting
    assert waiting.next(nodes[1:2], nodes, every) is None and len(waiting) == 2
    assert waiting.next(nodes[2:], nodes, every) == (0, nodes[2])
    waiting.ended(3, "a", well=True)
    assert waiting.next(nodes[:1], nodes, every) == (1, nodes[0])
    waiting.add(1)  # its node died
    assert waiting.next(nodes[1:2], nodes, every) is None
    assert waiting.next(nodes[1:2], nodes[1:2], every) == (1, nodes[1])  # no other node is left


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: headbench[cluster]")
def test_one_node_on_which_processes_end_costs_no_cell(place: Place, nodes):
    run = nodes.run(place, "--methods", "crashes_on_one", "--seeds", "6", before=nodes.with_plugin)
    assert run.result(600) == 0, run.output.read_text()
    assert len(place.records()) == 6
    assert len(list(nodes.site.glob("*.crash"))) == IN_A_ROW
    said = [line for line in run.output.read_text().splitlines() if line.startswith("node ")]
    assert len(said) == 1 and f": {IN_A_ROW} jobs in a row crashed there; " in said[0]
