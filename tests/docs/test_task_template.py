"""The task adapter that CONTRIBUTING.md shows, installed and run as a user would."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.contract import TASKS
from tasks.errors import TaskError

ROOT = Path(__file__).parents[2]
TEMPLATE = Path(__file__).parent / "templates" / "task_adapter.py"


@pytest.fixture
def headbench(tmp_path, tiny_data):
    """Run the command where a package with the template is installed."""
    site = tmp_path / "site"
    info = site / "film_reviews-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: film-reviews\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headbench.tasks]\nreviews = film_reviews\n")
    (site / "film_reviews.py").write_text(TEMPLATE.read_text(encoding="utf-8"))
    rows = [json.loads(line) for line in tiny_data.read_text().splitlines()]
    (site / "reviews.tsv").write_text("".join(f"{row['label']}\t{row['text']}\n" for row in rows))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)]),
        "HEADBENCH_CACHE": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path),
    }

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "bench", *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_adapter_is_listed(headbench):
    listed = headbench("list", "tasks")
    assert "\nreviews\n    Film reviews, negative or positive" in listed
    assert "built in: film-reviews, 1" in listed


def test_the_adapter_runs(headbench, tiny_model, tmp_path):
    flags = ["--task", "reviews", "--model", str(tiny_model), "--methods", "none,random", "--seeds", "1"]
    headbench("run", *flags, "--levels", "0.5", "--no-latency", "--device", "cpu", "--out", "out")
    records = [json.loads(path.read_text()) for path in (tmp_path / "out").rglob("*.json")]
    assert {record["cell"]["label"] for record in records} == {"none", "random"}
    assert all(record["status"] == "done" and record["cell"]["data"] == "film-reviews" for record in records)


def test_a_line_of_its_file_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "film_reviews.py").write_text(TEMPLATE.read_text(encoding="utf-8"))
    file = tmp_path / "reviews.tsv"
    file.write_text("positive\ta film\npositive, without a tab\n")
    spec = importlib.util.spec_from_file_location("film_reviews", tmp_path / "film_reviews.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    del TASKS["reviews"]
    with pytest.raises(TaskError) as raised:
        module.Reviews.built_in()
    assert str(raised.value) == f"{file}: line 2: expected a label, a tab and a text"
