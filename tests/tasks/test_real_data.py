"""Real data sets and weights, where HEADBENCH_DATA says there are some."""

from __future__ import annotations

import json

import pytest

from bench.__main__ import main
from bench.suites.plugins import load_plugins
from tasks.contract import TASKS
from tasks.data.dataset import SPLITS
from tasks.request import TaskSpec


@pytest.mark.data
@pytest.mark.parametrize(
    ("folder", "adapter", "classes", "rows"),
    [
        ("sst2", "classification", 2, 6920 + 872 + 1821),
        ("financial_phrasebank", "classification", 3, 4846),
        ("mnli_taxinli", "mnli", 3, 2344 + 7727),
        ("langid20_flores200", "language_id", 20, 40180),
    ],
)
def test_real_data_sets_load_with_their_columns_as_they_are(real_data, folder, adapter, classes, rows):
    load_plugins()
    data = TASKS[adapter](TaskSpec(task=adapter, data=str(real_data / "data" / folder))).dataset
    assert len(data.labels) == classes
    parts = {split: {example.texts for example in getattr(data, split)} for split in SPLITS}
    assert not parts["train"] & parts["validation"] | (parts["train"] | parts["validation"]) & parts["test"]
    assert 0.98 * rows <= sum(len(getattr(data, split)) for split in SPLITS) <= rows
    assert {example.label for example in data.test} == set(range(classes)) and data.majority_accuracy < 0.7


@pytest.mark.data
@pytest.mark.parametrize("how", ["as it is", "fine-tuned"])
def test_a_model_runs_on_real_texts(real_data, tmp_path, tiny_model, monkeypatch, how):
    monkeypatch.setenv("HEADBENCH_CACHE", str(tmp_path / "cache"))
    data = str(real_data / "data" / "sst2")
    flags = ["--task", "classification", "--model", str(tiny_model), "--data", data, "--limit", "64"]
    flags += ["--finetune"] if how == "fine-tuned" else []
    out = tmp_path / "out"
    usual = ["--methods", "none,michel", "--seeds", "1", "--levels", "0.5", "--jobs", "1", "--device", "cpu"]
    assert main(["run", *flags, *usual, "--no-latency", "--out", str(out)]) == 0
    records = [json.loads(path.read_text()) for path in out.rglob("*.json")]
    assert {record["status"] for record in records} == {"done"} and len(records) == 2


@pytest.mark.slow
@pytest.mark.data
def test_real_weights_without_a_head_run_once_they_are_fine_tuned(real_data, tmp_path, monkeypatch, complaint):
    weights, data = real_data / "weights" / "stories260K", real_data / "data" / "sst2"
    flags = ["run", "--task", "classification", "--model", weights, "--data", data, "--limit", 32, "--seeds", 1]
    flags += ["--methods", "none,michel", "--levels", "0.5", "--jobs", 1, "--no-latency", "--device", "cpu"]
    flags += ["--out", tmp_path / "out"]
    assert "no trained weights for score.weight: add --finetune" in complaint(*flags)
    assert main([*map(str, flags), "--finetune"]) == 0
