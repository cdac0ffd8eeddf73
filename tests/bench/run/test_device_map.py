"""Models that accelerate has dispatched, with hooks on every module: heads are gated, watched and removed as ever."""

from __future__ import annotations

import pytest
import torch
from accelerate import dispatch_model
from transformers import LlamaForCausalLM

from bench.__main__ import main
from bench.measure.view import view_of
from bench.suites.plugins import load_plugins
from methods import METHODS
from methods.contract.schedule import Importance
from methods.heads import HeadMap, gated, load_pruned, remove_heads, save_pruned
from methods.heads.surgery.shrink import shrink, working_copy
from tasks.errors import TaskError
from tasks.language_model import LanguageModel
from tasks.models import checkpoint
from tasks.models.cache import Cache
from tasks.request import TaskSpec
from tests.fixtures.slow import slow_cases

load_plugins()
CPU = torch.device("cpu")
SCORERS = ("amp", "ae", *slow_cases("attr"), "gnorm", "magnitude", "michel", "tis", "leave-one-out")
IDS = torch.arange(3, 27).view(2, 12)


def places(model: LlamaForCausalLM, *devices: object) -> dict[str, object]:
    """A device map of the small Llama: its layers on ``devices`` in turn, the rest on the first."""
    rest = dict.fromkeys(("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"), devices[0])
    return rest | {f"model.layers.{i}": devices[i % len(devices)] for i in range(len(model.model.layers))}


@pytest.fixture
def plain(tiny_language_model) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(tiny_language_model).eval().requires_grad_(False)


@pytest.fixture
def hooked(tiny_language_model) -> LlamaForCausalLM:
    """The same model as one that is spread over devices, but that all of them are the processor."""
    model = LlamaForCausalLM.from_pretrained(tiny_language_model).eval().requires_grad_(False)
    model = dispatch_model(model, places(model, "cpu"), main_device="cpu", force_hooks=True)
    assert all(hasattr(layer.self_attn.o_proj, "_hf_hook") for layer in model.model.layers)
    return model


@pytest.fixture
def task(tiny_language_model, tiny_texts, tmp_path) -> LanguageModel:
    task = LanguageModel(TaskSpec(task="harness", data=str(tiny_texts), model=str(tiny_language_model)))
    task.open(0, Cache(tmp_path), CPU)
    return task


@pytest.mark.parametrize("method", SCORERS)
def test_scores_are_those_of_the_model_without_hooks(task, plain, hooked, method):
    found = []
    for model in (plain, hooked):
        score = METHODS[method].function(view_of(task, model, METHODS[method], 0, 8, 1.0, CPU))
        found.append(score.units if isinstance(score, Importance) else score)
    assert torch.equal(*found)


@pytest.mark.parametrize("kept", ["some", "none in a layer", "none"])
@torch.no_grad()
def test_heads_are_gated_and_removed_as_without_hooks(plain, hooked, kept, tmp_path):
    heads = HeadMap.of(hooked)
    mask = torch.rand(len(heads), generator=torch.Generator().manual_seed(0)) < 0.6
    mask &= {"some": True, "none in a layer": heads.site_of_unit != 1, "none": False}[kept]
    before, expected = plain(IDS).logits, remove_heads(plain, mask)(IDS).logits
    with gated(hooked, mask, heads), gated(plain, mask):
        assert torch.equal(hooked(IDS).logits, plain(IDS).logits)
    smaller = remove_heads(hooked, mask, heads)
    assert torch.equal(smaller(IDS).logits, expected)
    shared = working_copy(hooked)
    shrink(shared, mask, heads)
    assert torch.equal(shared(IDS).logits, expected)
    assert torch.equal(hooked(IDS).logits, before)
    save_pruned(smaller, tmp_path / "small")
    assert torch.equal(load_pruned(tmp_path / "small")(IDS).logits, expected)
    tokens = [each.generate(IDS, max_new_tokens=4, do_sample=False) for each in (smaller, remove_heads(plain, mask))]
    assert torch.equal(*tokens)


def test_auto_on_one_device_is_the_model_as_it_is(tiny_language_model, plain):
    found = checkpoint.load_language_model(tiny_language_model, "float32", "auto")
    assert torch.equal(found(IDS.to(found.device)).logits.cpu(), plain(IDS).logits)


def test_a_run_with_a_device_map(place, tiny_language_model, tiny_texts, capsys):
    own = ["--task", "harness", "--model", str(tiny_language_model), "--data", str(tiny_texts), "--device-map", "auto"]
    flags = ["--methods", "amp", "--levels", "0.5", "--seeds", "1", "--jobs", "1", "--out", str(place.out)]
    assert main(["run", *own, *flags]) == 0
    (record,) = place.records().values()
    assert record["cell"]["asked"]["device_map"] == "auto"


def test_weights_that_are_elsewhere_are_refused(tiny_language_model, plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError, match="18 of its weights do not fit on the devices here, and heads cannot be rem"):
        checkpoint.load_language_model(tiny_language_model, "float32", places(plain, "cpu", "disk"))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two GPUs here")
@pytest.mark.parametrize("method", SCORERS)
def test_scores_of_a_model_on_two_gpus(task, plain, tiny_language_model, method):
    device_map = places(plain, 0, 1)
    spread = checkpoint.load_language_model(tiny_language_model, "float32", device_map).requires_grad_(False)
    found = []
    for model, device in ((plain, CPU), (spread, torch.device("cuda:0"))):
        score = METHODS[method].function(view_of(task, model, METHODS[method], 0, 8, 1.0, device))
        found.append(score.units if isinstance(score, Importance) else score)
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-6)
