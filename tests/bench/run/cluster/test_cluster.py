"""Runs on three nodes leave the records of a run on one machine, whatever dies meanwhile."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.suites.plugins import load_plugins
from tests.fixtures.forked import Forked, alive, strays, wait_until
from tests.fixtures.runs import ROOT, Place

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: headbench[cluster]"
)
# Of processes that run cells: a few in the ordinary tests; more with, say, HEADBENCH_CLUSTER_KILLS=10.
KILLS = int(os.environ.get("HEADBENCH_CLUSTER_KILLS", "2"))
FLAGS = ("--methods", "none,random,michel,gnorm", "--seeds", "2", "--finetune")
PLUGIN = """
import ctypes, faulthandler, time
from methods import scorer

@scorer("crashes", source="test")
def crashes(view):
    faulthandler.disable()  # it would print a traceback
    ctypes.string_at(0)

@scorer("hangs", source="test")
def hangs(view):
    time.sleep(600)
"""


@dataclass
class Nodes:
    """A head without CPUs, and three nodes with one each. site: where a plugin is that all of them have."""

    address: str
    raylets: list[int]
    head: int
    caches: list[Path]
    site: Path

    @property
    def flags(self) -> tuple[str, ...]:
        return "--engine", "ray", "--address", self.address, "--jobs", "3"

    def run(self, place: Place, *flags: str, **how: Any) -> Forked:
        """Start a run on them."""
        return Forked(place, *flags, *self.flags, output=place.folder / "said", **how)

    def with_plugin(self) -> None:
        """Load the plugin in this process."""
        sys.path.insert(0, str(self.site))
        load_plugins.cache_clear()
        load_plugins()

    def at_work(self) -> list[int]:
        """The processes that run cells on them, and those that hand them over."""
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = place.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"bench.run.cluster.template" in command:
                found.append(int(place.parent.name))
        return found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("nodes")
    site, caches = folder / "site", [folder / f"cache{number}" for number in range(3)]
    info = site / "faulty-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headbench.methods]\nfaulty = faulty\n")
    (site / "faulty.py").write_text(PLUGIN)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}", "RAY_TMPDIR": "/tmp"}  # sockets: short paths
    command = [sys.executable, str(Path(__file__).with_name("three_nodes.py")), *map(str, caches)]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    said = json.loads(process.stdout.readline())
    yield Nodes(**said, caches=caches, site=site)
    process.stdin.close()
    process.wait(60)


@pytest.fixture(scope="module")
def peace(tmp_path_factory, tiny_data, tiny_model) -> dict[str, Any]:
    """The results of a run on this machine."""
    place = Place(tmp_path_factory.mktemp("peace"), tiny_data, tiny_model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADBENCH_CACHE", str(place.cache))
        assert place.run(*FLAGS, "--jobs", "2", "--no-latency") == 0
    return place.results()


@pytest.mark.slow
def test_records_are_those_of_one_machine_and_models_are_trained_once(place, nodes, peace):
    run = nodes.run(place, *FLAGS)
    assert run.result() == 0, run.output.read_text()
    assert place.results() == peace
    assert strays(place) == []
    seconds: dict[str, set[float]] = {}
    for name, record in place.records().items():
        seconds.setdefault(name.rpartition("/")[2], set()).add(record["measured"]["training_seconds"])
        assert record["measured"]["latency"]["processor"] == record["provenance"]["processor"]
    assert [len(each) for each in seconds.values()] == [1, 1]  # all read the model of one training
    trained = {path.name for path in place.cache.iterdir() if path.is_dir()}
    assert len(trained) == 2
    assert {path.name for cache in nodes.caches for path in cache.glob("*/")} == trained


@pytest.mark.slow
def test_a_driver_that_is_killed_continues_and_one_that_is_interrupted_says_so(place, nodes, peace):
    run = nodes.run(place, *FLAGS)
    assert wait_until(lambda: "\n[3/" in run.output.read_text(), 300)
    os.kill(run.pid, signal.SIGKILL)
    assert run.result() == -signal.SIGKILL
    assert wait_until(lambda: not nodes.at_work(), 120), "cells outlive their run"
    run = nodes.run(place, *FLAGS)
    assert wait_until(lambda: "\n[1/" in run.output.read_text(), 300)
    os.kill(run.pid, signal.SIGINT)
    assert run.result() == 130, run.output.read_text()
    said = run.output.read_text()
    assert said.endswith("headbench: stopped; finished cells are kept: run the command again to continue\n"), said
    assert "Traceback" not in said
    assert wait_until(lambda: not nodes.at_work(), 120)
    run = nodes.run(place, *FLAGS)
    assert run.result() == 0, run.output.read_text()
    assert place.results() == peace and strays(place) == []


@pytest.mark.slow
def test_killed_processes_cost_no_cell(place, nodes, peace):
    draw, kills = random.Random(0), KILLS
    while kills:
        run = nodes.run(place, *FLAGS, "--no-latency", "--retry-failed")
        while kills and not wait_until(run.ended, draw.uniform(1, 6)):
            if at_work := nodes.at_work():
                os.kill(draw.choice(at_work), signal.SIGKILL)
                kills -= 1
        assert run.result() == 0, run.output.read_text()
        assert place.results() == peace and strays(place) == []
        shutil.rmtree(place.out)


@pytest.mark.slow
def test_a_method_that_ends_its_process_fails_by_name_and_a_timeout_holds(place, nodes):
    flags = ("--methods", "none,crashes,hangs", "--no-latency", "--timeout", "8")
    run = nodes.run(place, *flags, before=nodes.with_plugin)
    assert run.result() == 1, run.output.read_text()
    reasons = {name: record.get("reason") for name, record in place.records().items()}
    assert reasons == {
        "none/seed0": None,
        "crashes/seed0": "its process ended with signal SIGSEGV; 3 tries",
        "hangs/seed0": "it took longer than 8 s (--timeout)",
    }


def test_a_dry_run_says_how_many_slots_there_are(place, nodes):
    run = nodes.run(place, "--methods", "none", "--dry-run")
    assert run.result() == 0, run.output.read_text()
    assert "on 3 slots of 3 nodes (cpu)" in run.output.read_text()
    assert place.files() == {}


def test_a_node_with_other_code_is_refused(place, nodes, monkeypatch):
    def pretend() -> None:
        monkeypatch.setattr("bench.run.cluster.code.code", lambda: {"torch": "0.1"})  # before the engine imports it

    run = nodes.run(place, "--methods", "none", "--jobs", "1", before=pretend)
    assert run.result() == 2
    said = run.output.read_text().splitlines()[-1]
    assert said.startswith("headbench: error: node ") and "does not run what this machine runs: it has torch" in said
    assert said.endswith(", this machine 0.1")
    assert place.files() == {}


@pytest.mark.slow
@pytest.mark.parametrize("trained_here", [False, True], ids=["trains", "is sent a model"])
def test_a_node_that_cannot_write_is_named(place, nodes, trained_here):
    flags = ("--methods", "none", "--finetune", "--seeds", "1", "--no-latency")
    if trained_here:
        assert place.run(*flags) == 0
        shutil.rmtree(place.out)
    for cache in nodes.caches:
        if cache.exists():
            cache.rename(cache.with_suffix(".away"))
        cache.write_text("no folder")
    try:
        run = nodes.run(place, *flags)
        assert run.result() == 2, run.output.read_text()
    finally:
        for cache in nodes.caches:
            cache.unlink()
            if cache.with_suffix(".away").exists():
                cache.with_suffix(".away").rename(cache)
    said = run.output.read_text()
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert last.startswith("headbench: error: node ") and str(nodes.caches[0])[:-1] in last
    assert last.endswith("; finished cells are kept: run the command again to continue")


@pytest.mark.slow
def test_a_node_that_is_killed_costs_no_cell(place, nodes, peace):
    """The last test that needs three nodes."""
    run = nodes.run(place, *FLAGS)
    assert wait_until(lambda: "\n[2/" in run.output.read_text(), 300)
    os.kill(nodes.raylets.pop(), signal.SIGKILL)
    assert run.result() == 0, run.output.read_text()
    assert place.results() == peace
    assert strays(place) == [] and not alive(run.pid)


@pytest.mark.slow
def test_a_cluster_that_is_gone_is_one_line(place, nodes):
    """The last test, as it ends the cluster."""
    run = nodes.run(place, *FLAGS)
    assert wait_until(lambda: "\n[2/" in run.output.read_text(), 300)
    os.kill(nodes.head, signal.SIGKILL)
    assert run.result() == 2, run.output.read_text()
    said = run.output.read_text().splitlines()[-1]
    assert said.startswith(f"headbench: error: the cluster at {nodes.address} is gone (")
    assert said.endswith("; finished cells are kept: run the command again to continue")
    assert place.records() and strays(place) == []
