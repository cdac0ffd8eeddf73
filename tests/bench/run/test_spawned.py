"""Processes that import everything anew, as a GPU needs and macOS has them, make the records of forked ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

RUN = """
import multiprocessing, sys
import bench.run.processes as processes

if __name__ == "__main__":
    processes.get_context = lambda method: multiprocessing.get_context(sys.argv[1])
    from bench.__main__ import main
    sys.exit(main(sys.argv[2:]))
"""
METHODS = """
import os
import torch
from methods import scorer

@scorer("counted", source="test")
def counted(view):
    \"\"\"First come, first served.\"\"\"
    return torch.arange(len(view.heads)).float()

@scorer("ends", source="test")
def ends(view):
    \"\"\"Ends its process.\"\"\"
    os._exit(3)
"""


@pytest.mark.slow
def test_spawned_processes_make_the_records_of_forked_ones(place, package, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(RUN)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(place.tree), str(package(METHODS))]),
        "HEADBENCH_CACHE": str(place.cache),
        "TMPDIR": str(tmp_path),
    }
    found = {}
    for method in ("spawn", "fork"):
        flags = place.arguments("--methods", "counted,ends,michel", "--jobs", "2", out=tmp_path / method)
        command = [sys.executable, str(script), method, *flags]
        done = subprocess.run(command, env=environment, cwd=tmp_path, text=True, capture_output=True, timeout=300)
        assert done.returncode == 1, done.stdout + done.stderr
        found[method] = place.results(tmp_path / method)
    assert found["spawn"] == found["fork"]
    statuses = {name.partition("/")[0]: record["status"] for name, record in found["spawn"].items()}
    assert statuses == {"counted": "done", "ends": "failed", "michel": "done"}
