"""Reading results loads no model library, imports go in one direction, and what is imported is declared."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
MODELS = {"torch", "transformers", "datasets"}
ALLOWED = {  # packages of the project that each may import
    "bench.records": ("bench.records",),
    "bench.analysis": ("bench.records", "bench.analysis"),
    "bench.report": ("bench.records", "bench.analysis", "bench.report", "bench.process"),
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


def test_what_runs_no_model_does_not_load_what_builds_them():
    """That takes as long as torch and all else together."""
    assert not loaded_by("import methods.heads, methods.contract.registry, bench.cli.listing") & {
        "transformers.modeling_utils",
        "transformers.generation.utils",
        "transformers.loss.loss_utils",
        "torch.distributed.tensor",
    }


def test_the_command_line_reads_results_without_a_model_library():
    results = "results/real-trained"
    commands = [
        ["compare", "michel", "dsp-joint", results, "--task", "mnli"],
        ["regress", "--baseline", results, results, "--methods", "michel"],
    ]
    code = (
        f"from bench.__main__ import main\nassert not any(main(each) for each in {commands})\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    )
    assert not loaded_by(code) & MODELS


def _imported(file: Path) -> set[str]:
    """Top-level names of all absolute imports in a file, also of those within functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_every_package_that_is_imported_is_declared():
    """A package that only comes with another one may be gone with its next version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {canonicalize_name(Requirement(text).name) for group in groups for text in group}
    own = {"bench", "methods", "tasks"}
    files = [file for package in own for file in (ROOT / package).rglob("*.py")]
    imported = set().union(*map(_imported, files)) - own - sys.stdlib_module_names
    distributions = packages_distributions()
    assert {name for name in imported if not {*map(canonicalize_name, distributions.get(name, []))} & declared} == set()
