"""The weights that methods may start from are those that the task's own training starts from."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice

import pytest
import torch

from tasks.builtin import abilities
from tasks.classification import Classification
from tasks.language_model import LanguageModel
from tasks.models.cache import Cache
from tasks.request import TaskSpec

CPU = torch.device("cpu")


def opened(task, seed, tmp_path):
    """The weights of the task's model of ``seed``."""
    store = Cache(tmp_path)
    task.prepare(seed, store, CPU)
    return task.open(seed, store, CPU).state_dict()


def is_where_training_starts(task, tmp_path):
    """With a learning rate of zero, training ends where it started."""
    trained = opened(task, 1, tmp_path)
    initial = task.training(1, 1.0, CPU).initial_weights()
    assert trained.keys() == initial.keys()
    for name, value in trained.items():
        assert torch.equal(value, initial[name]), name
    other = task.training(2, 1.0, CPU).initial_weights()
    assert any(not torch.equal(initial[name], other[name]) for name in initial)


@pytest.mark.parametrize("pretrained", [True, False])
def test_of_a_classifier_that_is_fine_tuned_or_trained_from_scratch(tiny_model, tmp_path, pretrained):
    rows = [{"text": f"good film {number}", "label": "abc"[number % 3]} for number in range(60)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = {"model": str(tiny_model), "finetune": True} if pretrained else {}  # whose head is for two labels
    task = Classification(TaskSpec(task="classification", data=str(tmp_path / "data.jsonl"), **model))
    task.__dict__["_recipe"] = replace(task._recipe, learning_rate=0.0, max_steps=1)
    is_where_training_starts(task, tmp_path / "cache")


@pytest.mark.slow
def test_of_the_built_in_language_model(tmp_path, monkeypatch):
    monkeypatch.setattr(abilities, "RECIPE", replace(abilities.RECIPE, learning_rate=0.0, max_steps=1))
    is_where_training_starts(LanguageModel(TaskSpec(task="harness")), tmp_path)


def test_a_model_that_is_taken_as_it_is_has_none(tiny_data, tiny_model, tmp_path):
    task = Classification(TaskSpec(task="classification", data=str(tiny_data), model=str(tiny_model)))
    opened(task, 0, tmp_path)
    assert not task.trains
    with pytest.raises(ValueError, match="the model is taken as it is"):
        task.training(0, 1.0, CPU).initial_weights()


def test_a_training_of_other_steps_is_the_same_but_for_its_schedule(tiny_data, tmp_path):
    task = Classification(TaskSpec(task="classification", data=str(tiny_data)))
    task.__dict__["_recipe"] = replace(task._recipe, max_steps=8, warmup_steps=4, batch_size=24, learning_rate=1.0)
    opened(task, 0, tmp_path)
    whole = task.training(0, 1.0, CPU)
    assert whole.epoch_steps == -(-(len(task.dataset.train) - task.held_out) // 24)
    longer = whole.with_steps(16)
    assert (whole.steps, longer.steps, longer.epoch_steps) == (8, 16, whole.epoch_steps)
    for derived in (longer, whole.in_batches_of(12)):
        assert derived.initial_weights().keys() == whole.initial_weights().keys()
    for one, other in islice(zip(whole.batches(), longer.batches(), strict=True), 9):
        assert torch.equal(one.inputs["input_ids"], other.inputs["input_ids"])
    model = torch.nn.Linear(2, 2)
    optimizer, schedule = longer.optimizer(model)
    rates = []
    for _ in range(16):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert rates.index(max(rates)) == 8  # as large a share of warm-up
    assert rates[-1] == pytest.approx(1 / 8)
