"""What a cell records of the model."""

from __future__ import annotations

import shutil

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BartConfig, BartForSequenceClassification

from bench.measure import evaluate
from bench.measure.cell import reason_of, run_cell
from bench.measure.cell_timing import time_cell
from bench.records.errors import Changed
from bench.records.result import Passes
from bench.records.schema import FinishedRecord
from bench.suites.cells import open_task, plan
from bench.suites.parse import parse_methods
from bench.suites.plugins import load_plugins
from bench.suites.suite import Suite
from tasks.models.cache import Cache
from tasks.request import TaskSpec

load_plugins()


def recorded(model: str, data: str, cache) -> FinishedRecord:
    spec = TaskSpec(task="classification", model=model, data=data, limit=20)
    wanted = {"methods": parse_methods("magnitude"), "seeds": (0,), "levels": (0, 1), "calibration": 8}
    (cell,) = plan(Suite(name="one", tasks=(spec,), **wanted), "cpu")
    record, _ = run_cell(cell, Cache(cache))
    assert isinstance(record, FinishedRecord), record
    return record


def test_kinds_of_attention_are_recorded_where_a_model_has_several(tiny_model, tiny_data, tmp_path):
    assert recorded(str(tiny_model), str(tiny_data), tmp_path).result.attention == []
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder")
             for name, value in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 16))}  # fmt: skip
    names = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
    tokens = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
    config = BartConfig(vocab_size=len(tokenizer), d_model=8, max_position_embeddings=32, **sides, **names, **tokens)
    torch.manual_seed(0)
    BartForSequenceClassification(config).save_pretrained(tmp_path / "bart")
    tokenizer.save_pretrained(tmp_path / "bart")
    result = recorded(str(tmp_path / "bart"), str(tiny_data), tmp_path).result
    assert sorted(result.attention) == ["cross", "decoder", "encoder"]
    assert len(result.attention) == len(result.shape)


def test_a_reason_steers_no_terminal():
    error = ValueError("\x1b[31mred\x1b[0m\x00 \ud800 ü\nmore")
    assert reason_of(error) == r"ValueError: \x1b[31mred\x1b[0m\x00 \ud800 ü"


def test_a_reason_names_the_field_that_a_record_refuses():
    with pytest.raises(ValidationError) as raised:
        Passes.model_validate({"forward": 1, "backward": "many"})
    assert reason_of(raised.value).startswith("ValidationError: backward: Input should be a valid integer")


def test_a_model_that_was_changed_since_the_run_began_is_not_timed(tiny_model, tiny_data, tmp_path):
    shutil.copytree(tiny_model, folder := tmp_path / "own")
    spec = TaskSpec(task="classification", model=str(folder), data=str(tiny_data), limit=20)
    wanted = {"methods": parse_methods("magnitude"), "seeds": (0,), "levels": (0, 1), "calibration": 8}
    (cell,) = plan(Suite(name="one", tasks=(spec,), **wanted), "cpu")
    record, arrays = run_cell(cell, Cache(tmp_path))
    weights = load_file(folder / "model.safetensors")
    save_file({name: 2 * values for name, values in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    open_task.cache_clear()
    with pytest.raises(Changed, match="its data or model is not the one that this run was planned with"):
        time_cell(cell, record, arrays, Cache(tmp_path), lambda: True)


def test_each_seed_has_the_ends_of_its_own_model(tiny_model, tiny_data, tmp_path, monkeypatch):
    evaluated, own = [], evaluate.evaluate_model
    monkeypatch.setattr(evaluate, "evaluate_model", lambda task, model: evaluated.append(model) or own(task, model))
    spec = TaskSpec(task="classification", model=str(tiny_model), data=str(tiny_data), finetune=True)
    wanted = {"methods": parse_methods("magnitude,random:draws=1"), "seeds": (0, 1), "levels": (0, 1), "calibration": 8}
    cells = sorted(plan(Suite(name="two", tasks=(spec,), **wanted), "cpu"), key=lambda cell: cell.seed)
    numbers = []
    for cell in cells:
        record, _ = run_cell(cell, Cache(tmp_path))
        assert isinstance(record, FinishedRecord), record
        numbers.append((cell.seed, len(evaluated)))
    assert numbers == [(0, 2), (0, 2), (1, 4), (1, 4)]  # with all heads and with none, once for each seed
    first, second = (dict(evaluated[place].named_parameters())["classifier.weight"] for place in (0, 2))
    assert not torch.equal(first, second)
