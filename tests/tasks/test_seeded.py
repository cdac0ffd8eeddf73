"""A trained model is kept in a folder that others can read."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification

from bench.suites.plugins import load_plugins
from tasks.contract import TASKS
from tasks.models.cache import Cache
from tasks.request import TaskSpec


def test_all_files_of_a_trained_model_have_the_permissions_that_the_user_gives_new_files(
    tiny_data, tiny_model, tmp_path
):
    load_plugins()
    spec = TaskSpec(task="classification", data=str(tiny_data), model=str(tiny_model), finetune=True, limit=32)
    task, cache = TASKS["classification"](spec), Cache(tmp_path)
    before = os.umask(0o027)
    try:
        task.prepare(3, cache, torch.device("cpu"))
    finally:
        os.umask(before)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert folder.name.startswith("tiny-tiny-bert-s3-")  # data, model and seed, as the documents say
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o640}
    assert AutoModelForSequenceClassification.from_pretrained(folder).config.num_labels == 2


def test_a_model_whose_weights_were_altered_is_trained_again(tiny_data, tiny_model, tmp_path, capsys):
    load_plugins()
    spec = TaskSpec(task="classification", data=str(tiny_data), model=str(tiny_model), finetune=True, limit=32)
    task, cache = TASKS["classification"](spec), Cache(tmp_path)
    assert not task.prepared(0, cache)
    report = task.prepare(0, cache, torch.device("cpu"))
    assert task.prepared(0, cache)
    weights = task.place(0, cache) / "model.safetensors"
    built = weights.read_bytes()
    weights.write_bytes(built[:-1] + bytes([built[-1] ^ 1]))
    assert not task.prepared(0, cache)  # so that it is trained before its cells, and not within the first
    again = task.prepare(0, cache, torch.device("cpu"))
    assert again["weights"] == report["weights"] and weights.read_bytes() == built
    assert "model.safetensors is altered: set aside" in capsys.readouterr().err


def test_a_small_language_model_is_trained_once_whatever_it_is_evaluated_on():
    load_plugins()
    task = TASKS["harness"]
    built_in = [task(TaskSpec(task="harness", **given)) for given in ({}, {"limit": 5}, {"dtype": "bfloat16"})]
    assert len({str(each.place(0, Cache(Path("cache")))) for each in built_in}) == 1
    assert len({str(each.fingerprints(0)) for each in built_in}) == 3


def test_another_version_of_an_adapter_trains_models_of_its_own(tiny_data, tiny_model, tmp_path, monkeypatch):
    load_plugins()
    spec = TaskSpec(task="classification", data=str(tiny_data), model=str(tiny_model), finetune=True, limit=32)
    task, cache = TASKS["classification"](spec), Cache(tmp_path)
    before = task.place(0, cache)
    monkeypatch.setattr(type(task), "version", 2)
    assert task.place(0, cache) != before
