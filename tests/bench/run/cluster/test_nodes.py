"""Which slots a run may use, and that what ends it is one line, with the node that it is of."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from bench.records.errors import CONTINUE, InputError
from bench.run.options import ClusterOptions

exceptions = pytest.importorskip("ray.exceptions", reason="Ray is not installed: headbench[cluster]")
FULL = errno.ENOSPC, os.strerror(errno.ENOSPC)


@pytest.mark.parametrize("apart", [False, True])
def test_jobs_that_wait_too_long_go_elsewhere_one_to_a_machine(monkeypatch, apart):
    """Where they are timed, no two go to one machine, nor to one where another still waits."""
    from bench.run.cluster import flights as module
    from bench.run.cluster import phase as phases
    from bench.run.cluster.placement import Node, Queue
    from bench.run.cluster.waiting import Waiting

    monkeypatch.setattr(module.ray, "cancel", lambda reference: None)
    hosts = {"a": "first", "b": "first", "c": "second", "d": "second", "e": "third"}
    flights = object.__new__(module.Flights)
    flights._known = module.WAIT + 1  # they were sent at 0
    flights._all = {n: SimpleNamespace(index=n, node="a", reference=n, waits=True, sent=0) for n in range(3)}
    phase = object.__new__(phases.ClusterPhase)
    phase.nodes = [Node(node, host, 1, 1) for node, host in hosts.items()]
    phase.waiting = Waiting(Queue([], []))
    phase.apart, phase.limit, phase._flights = apart, 10, flights

    def send(index, node):
        flights.add(SimpleNamespace(node=node.id, reference=f"again {index}", waits=False))

    phase._send = send
    phase._take_back()
    sent = [each.node for each in flights.in_time()]
    assert sent == (["c", "e"] if apart else ["b", "c", "d"])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(*FULL, "/cache/model"), "/cache/model: No space left on device"),
        (OSError(*FULL), "No space left on device"),
        (OSError("torn"), "torn"),
        (OSError(), "OSError"),
        (exceptions.OutOfDiskError("no room\nmore of it"), "no room"),
    ],
)
def test_a_fault_of_a_node_names_it(error, said):
    from bench.run.cluster.nodes import failed_on

    assert str(failed_on("second", error)) == f"node second: {said}; {CONTINUE}"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (exceptions.LocalRayletDiedError(), "the cluster at h:1 is gone (The task's local raylet died."),
        (exceptions.RaySystemError("lost"), "the cluster at h:1 is gone ("),
        (ConnectionRefusedError("no"), "the cluster at h:1 is gone (no)"),
        (exceptions.ObjectStoreFullError("no room"), "Ray: no room"),
        (exceptions.RuntimeEnvSetupError("bad"), "Ray: Failed to set up runtime environment."),
    ],
)
def test_what_ray_cannot_do_is_one_line(error, said):
    from bench.run.cluster.nodes import one_line

    with pytest.raises(InputError) as caught, one_line(ClusterOptions(address="h:1")):
        raise error
    text = str(caught.value)
    assert text.startswith(said) and text.endswith(f"; {CONTINUE}") and "\n" not in text


def test_a_bug_in_a_task_keeps_its_traceback():
    from bench.run.cluster.nodes import one_line

    with pytest.raises(exceptions.RayTaskError), one_line(ClusterOptions()):
        raise exceptions.RayTaskError("take", "Traceback", ValueError("a bug"))


def ray_of(*resources: dict[str, float]) -> SimpleNamespace:
    """What stands for Ray, of a cluster whose nodes have these resources."""
    nodes = [
        {"NodeID": name, "NodeManagerHostname": "h", "Alive": True, "Resources": each}
        for name, each in zip("abc", resources, strict=False)
    ]
    return SimpleNamespace(nodes=lambda: nodes, get_runtime_context=lambda: SimpleNamespace(gcs_address=""))


@pytest.mark.parametrize(
    ("unused", "own", "taken"),
    [
        ({"CPU": 8.0, "GPU": 2.0}, {}, 0),
        ({"GPU": 2.0}, {}, 4),  # Ray leaves out what is used up
        ({"CPU": 8.0}, {}, 4),
        ({"CPU": 5.0, "GPU": 2.0}, {}, 2),  # 3 of 8 CPUs are used, and a cell takes 2
        ({"CPU": 5.0, "GPU": 2.0}, {"CPU": 2.0}, 1),
        ({"CPU": 8.0, "GPU": 1.3}, {"GPU": 0.5}, 1),
        ({}, {"CPU": 8.0, "GPU": 2.0}, 0),
        ({"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0, "GPU": 2.0}, 0),  # Ray does not know yet of what was sent
    ],
)
def test_what_this_run_does_not_use_of_a_node_others_do(monkeypatch, unused, own, taken):
    from bench.run.cluster import nodes

    monkeypatch.setattr(nodes, "ray", ray_of({"CPU": 8.0, "GPU": 2.0}))
    monkeypatch.setattr(nodes, "available_resources_per_node", lambda: {"a": unused})
    found = nodes.Nodes(ClusterOptions(cpus=2, gpus=0.5))
    found.look({"a": own}, now=True)
    assert (found["a"].slots, found["a"].taken, found.slots) == (4, taken, 4 - taken)
    outside = nodes.Nodes(ClusterOptions(address="ray://h:1", cpus=2, gpus=0.5))
    assert outside.slots == 4  # it cannot be known there


@pytest.mark.parametrize(
    ("options", "resources", "said"),
    [
        (ClusterOptions(cpus=16), "16 CPU", "8 CPU and 0 GPU"),
        (ClusterOptions(gpus=1.0), "1 CPU and 1 GPU", "4 CPU and 0.5 GPU"),
        (ClusterOptions(cpus=8, gpus=0.5), "8 CPU and 0.5 GPU", "4 CPU and 0.5 GPU"),
    ],
)
def test_a_cell_that_fits_no_node_is_refused_at_once(monkeypatch, options, resources, said):
    from bench.run.cluster import nodes

    monkeypatch.setattr(nodes, "available_resources_per_node", dict)
    monkeypatch.setattr(nodes, "ray", ray_of({}, {"CPU": 8.0}, {"CPU": 4.0, "GPU": 0.5}))
    with pytest.raises(InputError) as caught:
        nodes.Nodes(options)
    assert str(caught.value) == (
        f"no node of the cluster has {resources} for a cell (--cpus-per-cell, --gpus-per-cell): the largest so far has "
        + said
    )
    monkeypatch.setattr(nodes, "ray", ray_of({}))  # a head, whose nodes are to come
    assert nodes.Nodes(options).slots == 0


class Ended(list[SimpleNamespace]):
    """Flights that all have ended."""

    def taken(self) -> dict[str, Any]:
        return {}

    def listen(self) -> None:
        pass

    def ended(self) -> list[SimpleNamespace]:
        found = list(self)
        self.clear()
        return found


@pytest.mark.parametrize("raised", [False, True])
def test_what_has_ended_beside_what_ends_the_run_comes_first(raised):
    """Where it is raised here, and where a job has said so."""
    from bench.run.cluster import phase as phases
    from bench.run.worker import Done

    fault = InputError("node n: disk full")

    def outcome(flight):
        if flight.index == 0 and raised:
            raise fault
        return Done(flight.index, 1.0, error=None if flight.index else fault)

    phase = object.__new__(phases.ClusterPhase)
    phase.jobs, phase.waiting = [None] * 3, ()
    phase.nodes = SimpleNamespace(look=lambda taken: None)
    phase._flights = Ended(SimpleNamespace(index=index, seconds=1.0) for index in range(3))
    phase._take_back = phase._place = lambda: None
    phase._outcome, phase._ended = outcome, lambda flight, done: [done]
    found = []
    with pytest.raises(InputError) if raised else nullcontext():
        for done in phase.outcomes(lambda busy: None):
            found.append(done.index)
    assert found == ([1, 2] if raised else [1, 2, 0])


def test_a_node_that_starts_no_process_is_named():
    from bench.run.cluster import phase as phases
    from bench.run.cluster.placement import Node
    from bench.run.cluster.remote import Answer

    phase = object.__new__(phases.ClusterPhase)
    phase.nodes = {"a": Node("a", "second", 1, 1)}
    with pytest.raises(InputError) as caught:
        phase._answered(SimpleNamespace(node="a"), Answer(unable="ImportError: libcudart.so.12"))
    assert str(caught.value) == f"node second starts no process for jobs: ImportError: libcudart.so.12; {CONTINUE}"
