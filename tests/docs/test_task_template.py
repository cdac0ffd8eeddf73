"""The task adapter that CONTRIBUTING.md shows, installed and run as a user would."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from bench.__main__ import main
from tasks.contract import TASKS
from tasks.errors import TaskError

TEMPLATE = Path(__file__).parent / "templates" / "task_adapter.py"


@pytest.fixture
def installed(plugin, tiny_data):
    """A package with the template and its file is installed."""
    rows = [json.loads(line) for line in tiny_data.read_text().splitlines()]
    reviews = "".join(f"{row['label']}\t{row['text']}\n" for row in rows)
    plugin(TEMPLATE.read_text(encoding="utf-8"), "tasks", {"reviews.tsv": reviews})


@pytest.mark.usefixtures("installed")
def test_the_adapter_is_listed(capsys):
    assert main(["list", "tasks"]) == 0
    listed = capsys.readouterr().out
    assert "\nreviews\n    Film reviews, negative or positive" in listed
    assert "built in: film-reviews, 1" in listed


@pytest.mark.usefixtures("installed")
def test_the_adapter_runs(place):
    flags = ["--task", "reviews", "--model", str(place.model), "--methods", "none,random", "--seeds", "1"]
    own = ["--levels", "0.5", "--no-latency", "--device", "cpu", "--jobs", "1", "--out", str(place.out)]
    assert main(["run", *flags, *own]) == 0
    records = list(place.records().values())
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
