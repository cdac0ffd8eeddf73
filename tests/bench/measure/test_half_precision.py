"""Language models in half precision, from the command line to the smaller checkpoint."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from bench.__main__ import main
from bench.measure import latency
from bench.measure.exactness import NotExact, largest_gap, tolerance_of
from bench.suites.plugins import load_plugins
from methods import METHODS
from methods.contract.choice import Choice
from methods.contract.view import View
from methods.heads import HeadMap, load_pruned, remove_heads, save_pruned
from tasks.language_model import LanguageModel
from tasks.models import checkpoint
from tasks.models.cache import Cache
from tasks.request import TaskSpec
from tests.fixtures.slow import slow_cases

CPU = torch.device("cpu")
TASKS = "headbench_own_texts"
load_plugins()
SCORERS = ("amp", "ae", "tis", "michel", "gnorm", "magnitude")


@pytest.fixture
def own(place, tiny_language_model, tiny_texts) -> list[str]:
    flags = ["--task", "harness", "--model", str(tiny_language_model), "--data", str(tiny_texts), "--device", "cpu"]
    return [*flags, "--harness-tasks", TASKS]


@pytest.fixture
def opened(tiny_language_model, tiny_texts, tmp_path):
    """Opens the model in a dtype, with its task."""

    def make(dtype: str):
        spec = TaskSpec(
            task="harness", data=str(tiny_texts), model=str(tiny_language_model), harness_tasks=(TASKS,), dtype=dtype
        )
        task = LanguageModel(spec)
        return task, task.open(0, Cache(tmp_path), CPU).requires_grad_(False)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("methods", ["none,amp,michel,ste", "gnorm,greedy-michel:recompute=8"])
def test_a_cell_is_measured_in_half_precision(own, place, capsys, monkeypatch, methods):
    monkeypatch.setattr(latency, "PATIENCE", 0.0)
    dtype = "bfloat16"
    flags = ["--methods", methods, "--levels", "0.5", "--seeds", "1", "--jobs", "1", "--training", "0.01"]
    assert main(["run", *own, *flags, "--dtype", dtype, "--out", str(place.out)]) == 0
    records = place.records()
    assert len(records) == len(methods.split(","))
    for record in records.values():
        result = record["result"]
        assert record["cell"]["asked"]["dtype"] == record["measured"]["latency"]["dtype"] == dtype
        assert result["gap"] <= tolerance_of(getattr(torch, dtype))
        assert result["megabytes"][0]["model"] == pytest.approx(2 * result["parameters"][0]["model"] / 2**20, abs=1e-6)


def test_scores_are_taken_in_float32(opened):
    """What is left of their error is that of the activations, of some 2^-8; a sum in bfloat16 would lose far more."""
    wide_task, wide = opened("float32")
    half_task, half = opened("bfloat16")
    with torch.no_grad():  # the same weights
        for one, other in zip(wide.parameters(), half.parameters(), strict=True):
            one.copy_(other)
    for name in SCORERS:
        method = METHODS[name]
        scores = []
        for task, model in ((wide_task, wide), (half_task, half)):
            heads = HeadMap.of(model)
            view = View(
                model,
                heads,
                task.calibration(0, 16, CPU),
                heads.full_mask(),
                torch.Generator(),
                task.logits,
                task.loss,
            )
            found = method.function(view)
            scores.append(found if isinstance(found, torch.Tensor) else found.units)
        expected, found = scores
        assert found.dtype == torch.float64
        assert (found - expected).norm() <= 0.02 * expected.norm(), name


def test_the_gap_of_a_wrong_removal_is_too_large_for_half_precision_too(opened):
    task, model = opened("bfloat16")
    heads = HeadMap.of(model)
    mask = torch.arange(len(heads)) % 2 == 0
    choice = Choice(model, heads, mask)
    assert largest_gap(task, choice, choice.smaller()) <= tolerance_of(torch.bfloat16)
    with pytest.raises(NotExact):
        largest_gap(task, choice, remove_heads(model, ~mask, heads))


@pytest.mark.parametrize(("method", "dtype"), [("amp", torch.bfloat16), *slow_cases(("michel", torch.float16))])
def test_a_smaller_checkpoint_keeps_its_dtype(own, place, method, dtype, capsys, monkeypatch):
    monkeypatch.setattr(latency, "PATIENCE", 0.0)
    name = str(dtype).removeprefix("torch.")
    out = place.folder / "small"
    flags = ["--method", method, "--keep", "0.5", "--out", str(out), "--dtype", name]
    assert main(["prune", *own, *flags]) == 0
    assert {tensor.dtype for tensor in load_file(out / "model.safetensors").values()} == {dtype}
    assert json.loads((out / "config.json").read_text())["dtype"] == name
    pruned = load_pruned(out)
    assert pruned.dtype == dtype
    ids = torch.arange(3, 12)[None]
    again = checkpoint.load_language_model(out, "auto")
    assert torch.equal(again(input_ids=ids).logits, pruned(input_ids=ids).logits)
    if method == "amp":
        theirs = AutoModelForCausalLM.from_pretrained(out, dtype="auto")
        assert torch.equal(theirs(input_ids=ids).logits, pruned(input_ids=ids).logits)


def test_a_pruned_model_read_in_half_precision_is_the_pruned_half_precision_model(opened, tmp_path):
    """What is no weight, as the frequencies of rotary positions, stays in float32."""
    _, wide = opened("float32")
    _, half = opened("bfloat16")
    heads = HeadMap.of(wide)
    mask = torch.arange(len(heads)) % 3 > 0
    save_pruned(remove_heads(wide, mask, heads), tmp_path / "small")
    read = checkpoint.load_language_model(tmp_path / "small", "bfloat16")
    ids = torch.arange(3, 40)[None]
    assert read.dtype == read.config.dtype == torch.bfloat16
    assert torch.equal(read(input_ids=ids).logits, remove_heads(half, mask, heads)(input_ids=ids).logits)
