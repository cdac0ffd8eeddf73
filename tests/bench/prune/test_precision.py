"""A model whose weights have 16 bits stays one: on disk, on the card, and by what is measured."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, T5Config, T5ForConditionalGeneration

from bench.prune import prune as verb
from bench.prune.precision import half_of
from methods.heads import load_pruned
from tasks.request import TaskSpec

SAID = "Weights are saved in {}, as those of the model before are"


@pytest.fixture
def halved(tiny_model, tmp_path):
    """A function that gives a copy of the tiny model with weights of a type."""

    def make(dtype):
        folder = tmp_path / "whole"
        AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
        AutoModelForSequenceClassification.from_pretrained(tiny_model, dtype=dtype).save_pretrained(folder)
        return folder

    return make


def _types(file):
    return {tensor.dtype for tensor in load_file(file).values() if tensor.is_floating_point()}


def _megabytes(card):
    return [float(each) for each in re.search(r"MB \(2\^20 bytes\) *\| +([\d.]+) +\| +([\d.]+)", card).groups()]


@pytest.mark.parametrize(
    ("asked", "half"), [({}, torch.bfloat16), ({"dtype": "float32"}, None), ({"finetune": True}, None)]
)
def test_a_type_that_is_asked_for_is_kept_and_so_is_that_of_training(halved, asked, half):
    spec = TaskSpec(task="harness", model=str(halved(torch.bfloat16)), **asked)
    assert half_of(SimpleNamespace(spec=spec), nn.Module()) == half


@pytest.mark.parametrize(("dtype", "half"), [(torch.float16, None), (torch.bfloat16, torch.bfloat16)])
def test_a_model_of_which_transformers_keeps_parts_in_float32_is_saved_in_it(tmp_path, dtype, half):
    """As the second projection of T5's feed-forward layers, whose values are too large for float16."""
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_heads": 2, "num_layers": 1, "vocab_size": 20}
    T5ForConditionalGeneration(T5Config(**sizes)).to(dtype).save_pretrained(tmp_path)
    as_it_computes = T5ForConditionalGeneration.from_pretrained(tmp_path, dtype=dtype)
    assert ({each.dtype for each in as_it_computes.parameters()} == {dtype}) == (half is not None)
    spec = TaskSpec(task="translation", model=str(tmp_path))
    assert half_of(SimpleNamespace(spec=spec), T5ForConditionalGeneration.from_pretrained(tmp_path)) == half


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_that_nothing_changed_are_saved_as_they_were(prune, halved, tmp_path, dtype):
    whole = halved(dtype)
    assert prune("--method", "magnitude", "--keep", "0.5", model=whole) == 0
    assert _types(tmp_path / "small" / "model.safetensors") == {dtype}
    card = (tmp_path / "small" / "README.md").read_text()
    assert SAID.format(str(dtype).removeprefix("torch.")) in card
    for size, folder in zip(_megabytes(card), ("whole", "small"), strict=True):
        weights = load_file(tmp_path / folder / "model.safetensors").values()
        assert size == pytest.approx(sum(each.nbytes for each in weights) / 2**20, abs=0.0051)
    assert json.loads((tmp_path / "small" / "config.json").read_text())["dtype"] == str(dtype).removeprefix("torch.")
    loaded = load_pruned(tmp_path / "small")
    assert loaded.dtype == loaded.config.dtype == dtype
    before = load_file(whole / "model.safetensors")
    assert torch.equal(loaded.state_dict()["classifier.weight"], before["classifier.weight"])
    assert prune("--method", "magnitude", "--keep", "0.5", out="smaller", model=tmp_path / "small") == 0
    assert _types(tmp_path / "smaller" / "model.safetensors") == {dtype}


@pytest.mark.parametrize("shard", ["1GB", "10KB"])
def test_files_that_no_weights_are_read_from_do_not_count(halved, shard):
    """Such as a copy in another type, as many a folder on the hub holds."""
    folder = halved(torch.bfloat16)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.bfloat16)
    model.save_pretrained(folder, max_shard_size=shard)
    assert (len(list(folder.glob("*.safetensors"))) > 1) == (shard == "10KB")
    save_file({"weight": torch.ones(2)}, folder / "model.fp32.safetensors")
    task = SimpleNamespace(spec=TaskSpec(task="classification", model=str(folder)))
    assert half_of(task, nn.Module()) == torch.bfloat16


def test_recovered_weights_are_measured_as_they_are_saved(prune, halved, tmp_path, monkeypatch):
    measured = []

    def evaluate(task, model):
        measured.append({name: weight.clone() for name, weight in model.state_dict().items()})
        return evaluate_model(task, model)

    evaluate_model = verb.evaluate_model
    monkeypatch.setattr(verb, "evaluate_model", evaluate)
    assert prune("--method", "michel", "--keep", "3", "--recover", "lstsq", model=halved(torch.bfloat16)) == 0
    saved = load_file(tmp_path / "small" / "model.safetensors")
    assert saved.keys() == measured[-1].keys()
    for name, weight in measured[-1].items():
        assert weight.dtype == torch.float32 and torch.equal(weight, saved[name].float()), name


def test_a_uniform_checkpoint_in_half_precision_loads_with_transformers(prune, tiny_qwen, tmp_path):
    AutoModelForSequenceClassification.from_pretrained(tiny_qwen, dtype=torch.bfloat16).save_pretrained(tiny_qwen)
    assert prune("--method", "magnitude", "--keep", "0.5", "--uniform", model=tiny_qwen) == 0
    assert _types(tmp_path / "small" / "model.safetensors") == {torch.bfloat16}
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "small", dtype="auto").dtype == torch.bfloat16


@pytest.mark.parametrize("flags", [(), ("--finetune",)])
def test_weights_of_more_bits_are_not_rounded(prune, halved, tmp_path, flags):
    """Of a file in which one weight has 32 bits, and of a model that is trained here."""
    file = halved(torch.bfloat16) / "model.safetensors"
    weights = load_file(file)
    if not flags:
        weights["classifier.bias"] = weights["classifier.bias"].float() + 1e-6
        save_file(weights, file, metadata={"format": "pt"})
    assert prune("--method", "magnitude", "--keep", "0.5", *flags, model=tmp_path / "whole") == 0
    assert _types(tmp_path / "small" / "model.safetensors") == {torch.float32}
    assert "are saved in" not in (tmp_path / "small" / "README.md").read_text()
