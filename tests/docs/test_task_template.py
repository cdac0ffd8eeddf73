"""The task adapter that CONTRIBUTING.md shows, installed and run as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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

    def run(*arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "bench", *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return run


def test_the_adapter_is_listed(headbench):
    listed = headbench("list", "tasks")
    assert "\nreviews\n    Film reviews, negative or positive" in listed
    assert "built in: film-reviews, 1" in listed


def test_the_adapter_runs(headbench, tiny_model, tmp_path):
    flags = ["--task", "reviews", "--model", str(tiny_model), "--methods", "none,random", "--seeds", "1"]
    headbench("run", *flags, "--levels", "0.5", "--device", "cpu", "--out", "out")
    records = [json.loads(path.read_text()) for path in (tmp_path / "out").rglob("*.json")]
    assert {record["cell"]["label"] for record in records} == {"none", "random"}
    assert all(record["status"] == "done" and record["cell"]["data"] == "film-reviews" for record in records)


def test_a_line_of_its_file_that_cannot_be_used_is_named(headbench, tmp_path):
    file = tmp_path / "site" / "reviews.tsv"
    file.write_text(file.read_text() + "positive, without a tab\n")
    said = headbench("run", "--task", "reviews", "--methods", "none", "--out", "out", code=2)
    assert said == f"headbench: error: {file}: line 201: expected a label, a tab and a text\n"
