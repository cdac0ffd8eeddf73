"""Reading results loads no model library, no method and no task, and imports go in one direction."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODELS = {"torch", "transformers", "datasets"}
ALLOWED = {  # packages of the project that each may import
    "bench.records": ("bench.records",),
    "bench.analysis": ("bench.records", "bench.analysis"),
    "bench.report": ("bench.records", "bench.analysis", "bench.report", "bench.parent"),
}


def modules(package: str) -> list[str]:
    """Names of all modules of a package; ``__main__`` runs when it is imported."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in (ROOT / package.replace(".", "/")).rglob("*.py"))
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in paths if path.name != "__main__")


def loaded_by(code: str) -> set[str]:
    """Names of all modules that a fresh Python has loaded after ``code``."""
    command = [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("package", ALLOWED)
def test_reading_results_loads_no_model_library(package):
    loaded = loaded_by(f"import {', '.join(modules(package))}")
    own = {name for name in loaded if name.startswith(("bench.", "methods", "tasks"))}
    assert not loaded & MODELS
    assert {name for name in own if not name.startswith(ALLOWED[package])} == set()


def test_comparing_and_judging_runs_load_nothing_slow():
    code = (
        "import bench.analysis.comparing.comparison, bench.analysis.regression.junit, bench.analysis.regression.screen"
    )
    assert not loaded_by(code) & ({"pandas", "scipy", "matplotlib"} | MODELS)


@pytest.mark.parametrize(
    "code",
    ["import methods.heads, methods.contract.registry", "import bench.cli.listing"],
)
def test_what_runs_no_model_does_not_load_what_builds_them(code):
    """That takes as long as torch and all else together."""
    assert not loaded_by(code) & {
        "transformers.modeling_utils",
        "transformers.generation.utils",
        "transformers.loss.loss_utils",
        "torch.distributed.tensor",
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["compare", "michel", "ae", "results/mini", "--task", "mnli"],
        ["regress", "--baseline", "results/mini", "results/mini", "--methods", "magnitude"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_command_line_reads_results_without_a_model_library(arguments):
    code = f"from bench.__main__ import main\ntry:\n    main({arguments!r})\nexcept SystemExit:\n    pass"
    assert not loaded_by(code) & MODELS
