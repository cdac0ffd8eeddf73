"""Runs on three nodes leave the records of a run on one machine, whatever dies meanwhile."""

from __future__ import annotations

import importlib.util
import os
import random
import secrets
import shutil
import signal
from typing import Any

import pytest

from tests.fixtures.forked import alive, strays, wait_until
from tests.fixtures.runs import Place

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: headbench[cluster]"
)
KILLS = 10  # of processes that run cells
FLAGS = ("--methods", "none,random,michel,gnorm", "--seeds", "2", "--finetune")


@pytest.fixture(scope="module")
def peace(tmp_path_factory, tiny_data, tiny_model) -> dict[str, Any]:
    """The results of a run on this machine."""
    place = Place(tmp_path_factory.mktemp("peace"), tiny_data, tiny_model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADBENCH_CACHE", str(place.cache))
        assert place.run(*FLAGS, "--jobs", "2") == 0
    return place.results()


@pytest.mark.slow
def test_records_are_those_of_one_machine_and_models_are_trained_once(place, nodes, peace):
    place.timed = True
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
def test_a_training_that_fails_is_tried_once_and_fails_the_cells_of_its_model(place, nodes):
    cells = "--methods", "none,random,michel", "--seeds", "90,91", "--finetune"  # models that no node has yet
    (nodes.site / "untrainable").touch()
    try:
        run = nodes.run(place, *cells)
        assert run.result() == 1, run.output.read_text()
    finally:
        (nodes.site / "untrainable").unlink()
    assert [record["reason"] for record in place.records().values()] == ["RuntimeError: out of memory"] * 6
    assert len(list(nodes.site.glob("*.trained"))) == 2 and strays(place) == []
    run = nodes.run(place, *cells, "--retry-failed")
    assert run.result() == 0, run.output.read_text()


@pytest.mark.slow
def test_a_token_that_the_cluster_does_not_ask_for_is_not_used(place, nodes, peace, monkeypatch):
    """A driver that sends one asks for one, so that nodes without could not fetch from it, nor it from them."""
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    run = nodes.run(place, *FLAGS)
    assert run.result() == 0, run.output.read_text()
    assert "failed" not in run.output.read_text()
    assert place.results() == peace


@pytest.mark.slow
def test_no_model_travels_where_nodes_share_the_cache_of_the_driver(place, nodes, peace, monkeypatch):
    place.cache.mkdir()

    def none_travels() -> None:
        from bench.run.cluster import phase, shipments

        monkeypatch.setattr(phase.remote, "pack", travels)
        monkeypatch.setattr(shipments, "trained", travels)  # the files of a model that is to be sent

    with nodes.instead_of_caches(lambda cache: cache.symlink_to(place.cache)):
        run = nodes.run(place, *FLAGS, before=none_travels)
        assert run.result() == 0, run.output.read_text()
    assert place.results() == peace and strays(place) == []
    assert len([path for path in place.cache.iterdir() if path.is_dir()]) == 2


def travels(*given: object) -> None:
    """What is called where a model is to travel."""
    raise AssertionError(f"a model travels: {given}")


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
    """A cell whose process is killed three times fails, and the next run tries it again."""
    draw, kills, code = random.Random(0), KILLS, 1
    while kills or code:
        run = nodes.run(place, *FLAGS, "--retry-failed")
        while kills and not wait_until(run.ended, draw.uniform(1, 6)):
            if at_work := nodes.at_work():
                os.kill(draw.choice(at_work), signal.SIGKILL)
                kills -= 1
        code = run.result()
        failed = {name for name, record in place.records().items() if record["status"] == "failed"}
        assert code == bool(failed), run.output.read_text()
        assert all("; 3 tries" in place.records()[name]["reason"] for name in failed)
        results = place.results()
        assert results.keys() == peace.keys() and strays(place) == []
        assert all(results[name] == peace[name] for name in peace.keys() - failed)
        if not code:
            shutil.rmtree(place.out)


@pytest.mark.slow
def test_a_method_that_ends_its_process_fails_by_name_and_a_timeout_holds(place, nodes):
    flags = ("--methods", "none,crashes,hangs", "--timeout", "8")
    run = nodes.run(place, *flags, before=nodes.with_plugin)
    assert run.result() == 1, run.output.read_text()
    reasons = {name: record.get("reason") for name, record in place.records().items()}
    assert reasons == {
        "none/seed0": None,
        "crashes/seed0": "its process ended with signal SIGSEGV; 3 tries",
        "hangs/seed0": "it took longer than 8 s (--timeout)",
    }


@pytest.mark.slow
def test_a_cell_on_a_node_gives_the_record_of_one_machine(place, nodes):
    """The fastest real run: one cell, without training or timing."""
    run = nodes.run(place, "--methods", "none")
    assert run.result() == 0, run.output.read_text()
    found = place.results()
    shutil.rmtree(place.out)
    assert place.run("--methods", "none") == 0
    assert found == place.results() and found.keys() == {"none/seed0"}


@pytest.mark.slow
def test_a_driver_outside_of_the_cluster_gives_the_records_of_one_machine(place, nodes, peace):
    pytest.importorskip("grpc", reason="Ray's client is not installed: ray[client]")
    run = nodes.run(place, *FLAGS, "--address", nodes.outside)
    assert run.result() == 0, run.output.read_text()
    assert place.results() == peace and strays(place) == []


@pytest.mark.slow
def test_a_dry_run_says_how_many_slots_there_are(place, nodes):
    run = nodes.run(place, "--methods", "none", "--dry-run")
    assert run.result() == 0, run.output.read_text()
    assert "on 3 slots of 3 nodes (cpu)" in run.output.read_text()
    assert place.files() == {}


@pytest.mark.slow
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
    flags = ("--methods", "none", "--finetune", "--seeds", "1")
    if trained_here:
        assert place.run(*flags) == 0
        shutil.rmtree(place.out)
    with nodes.instead_of_caches(lambda cache: cache.write_text("no folder")):
        run = nodes.run(place, *flags)
        assert run.result() == 2, run.output.read_text()
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
    run = nodes.run(place, "--methods", "none,hangs", before=nodes.with_plugin)
    assert wait_until(lambda: "\n[1/" in run.output.read_text(), 300)
    os.kill(nodes.head, signal.SIGKILL)
    assert run.result() == 2, run.output.read_text()
    said = run.output.read_text().splitlines()[-1]
    assert said.startswith(f"headbench: error: the cluster at {nodes.address} is gone (")
    assert said.endswith("; finished cells are kept: run the command again to continue")
    assert place.records().keys() == {"none/seed0"} and strays(place) == []
