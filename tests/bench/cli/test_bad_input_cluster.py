"""Flags about a cluster that cannot be followed are one line."""

from __future__ import annotations

import importlib.util
import sys

import pytest
import torch

RUN = ("run", "--tasks", "mnli", "--methods", "none", "--seeds", "1")


@pytest.fixture
def unplanned(monkeypatch):
    """What plans a run must not be reached."""
    monkeypatch.setattr("bench.run.runner.look_for", None)


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--address", "auto"], "--address is for a cluster: add --engine ray"),
        (["--cpus-per-cell", "2"], "--cpus-per-cell is for a cluster: add --engine ray"),
        (["--engine", "dask"], "--engine: unknown 'dask': available: local, ray"),
        (
            ["--engine", "ray", "--gpus-per-cell", "1.5"],
            "a share of a GPU from 0.0001 on, or a whole number, not '1.5'",
        ),
        (
            ["--engine", "ray", "--gpus-per-cell", "1e-5"],
            "a share of a GPU from 0.0001 on, or a whole number, not '1e-5'",
        ),
        (
            ["--engine", "ray", "--device", "cpu", "--gpus-per-cell", "1"],
            "--device cpu and --gpus-per-cell 1 do not go together",
        ),
        (
            ["--engine", "ray", "--address", "auto", "--no-cache"],
            "--no-cache is for this machine: on a cluster, set HEADBENCH_CACHE on its nodes instead",
        ),
    ],
)
def test_flags_that_do_not_go_together(complaint, unplanned, flags, said):
    assert said in complaint(*RUN, *flags)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("flags", [("--device", "cuda"), ("--gpus-per-cell", "1")], ids=" ".join)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_gpus_are_asked_for_where_there_are_none(complaint, flags, dry):
    said = complaint(*RUN, "--engine", "ray", *flags, *dry)
    assert said == "--engine ray with 1 GPU for a cell: no CUDA device is available here"


@pytest.mark.parametrize("flags", [(), ("--address", "auto"), ("--address", "auto", "--dry-run")], ids=" ".join)
def test_ray_is_asked_for_where_it_is_not_installed(complaint, unplanned, monkeypatch, flags):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = complaint(*RUN, "--engine", "ray", *flags)
    assert said == "--engine ray needs Ray: python -m pip install 'headbench[cluster]'"


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: headbench[cluster]")
@pytest.mark.parametrize(
    "address",
    ["nonsense", "ray://nonsense", "127.0.0.1", ":6379", "127.0.0.1:x", "127.0.0.1:0", f"127.0.0.1:{'9' * 20}"],
)
def test_an_address_that_can_be_none(complaint, unplanned, address):
    said = complaint(*RUN, "--engine", "ray", "--address", address)
    assert said == f"--address {address}: expected auto, HOST:PORT or ray://HOST:PORT"


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: headbench[cluster]")
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_address_without_a_cluster(complaint, unplanned, address):
    said = complaint(*RUN, "--engine", "ray", "--address", address)
    assert said.startswith(f"--address {address}: no cluster answers there: ")
