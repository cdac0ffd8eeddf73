"""What a method leaves behind on a model is found, wherever it is and however small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.modules import module as global_hooks

from methods.checks import TINY_MODELS
from methods.checks.tiny_models import TINY
from methods.contract import side_effects
from methods.contract.side_effects import SideEffect, digest_of_tensor, no_side_effects, same_texts

GAMMA, MASK = 0x9E3779B97F4A7C15, 2**64 - 1
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def slow_digest(tensor: torch.Tensor) -> int:
    """Splitmix64 of each word of eight bytes and its place, added up; one word after another."""
    content = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    total = 0
    for place in range(0, len(content), 8):
        word = int.from_bytes(content[place : place + 8].ljust(8, b"\0"), "little") + place // 8 * GAMMA & MASK
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & MASK
        word = (word ^ word >> 27) * 0x94D049BB133111EB & MASK
        total += word ^ word >> 31
    total &= MASK
    return total - 2**64 if total >= 2**63 else total


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.uint8])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (7, 11, 2)])
def test_the_digest_is_that_of_its_definition(dtype, shape, device, monkeypatch):
    monkeypatch.setattr(side_effects, "CHUNK", {"cpu": 4, "gpu": 4})  # several chunks, the last one not full
    tensor = (torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 100).to(dtype)
    assert digest_of_tensor(tensor.to(device)) == slow_digest(tensor)


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=20), st.data())
def test_another_order_or_value_is_another_digest(values, data):
    tensor = torch.tensor(values)
    order = data.draw(st.permutations(range(len(values))))
    same = torch.equal(tensor[order].view(torch.int32), tensor.view(torch.int32))
    assert (digest_of_tensor(tensor[order]) == digest_of_tensor(tensor)) == same
    flipped = tensor.clone().view(torch.int32)
    flipped[data.draw(st.integers(0, len(values) - 1))] ^= 1 << data.draw(st.integers(0, 31))
    assert digest_of_tensor(flipped) != digest_of_tensor(tensor)


def test_views_are_digested_by_what_they_hold():
    tensor = torch.arange(24.0).view(4, 6)
    assert digest_of_tensor(tensor.T) == digest_of_tensor(tensor.T.contiguous()) != digest_of_tensor(tensor)
    assert digest_of_tensor(tensor.view(torch.uint8).flatten()[3:9]) == slow_digest(
        tensor.view(torch.uint8).flatten()[3:9]
    )


def permutes(model: nn.Sequential) -> None:
    model[0].weight.data = model[0].weight.data.flip(0)


def swaps_in_place(model: nn.Sequential) -> None:
    model[0].weight.data[[0, 1]] = model[0].weight.data[[1, 0]]


def changes_a_bit(model: nn.Sequential) -> None:
    model[1].running_mean.view(torch.int32)[1] ^= 1


def adds_a_weight(model: nn.Sequential) -> None:
    model[0].gate = nn.Parameter(torch.zeros(1))


def hooks_a_module(model: nn.Sequential) -> None:
    model[0].register_forward_hook(lambda *_: None)


def hooks_a_module_before(model: nn.Sequential) -> None:
    model.register_forward_pre_hook(lambda *_: None)


def hooks_a_weight(model: nn.Sequential) -> None:
    model[0].weight.register_hook(lambda gradient: None)


def hooks_a_gradient(model: nn.Sequential) -> None:
    model[0].weight.register_post_accumulate_grad_hook(lambda parameter: None)


def removes_a_hook(model: nn.Sequential) -> None:
    model[1]._forward_hooks.clear()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (permutes, "weights of the model: 0.weight"),
        (swaps_in_place, "weights of the model: 0.weight"),
        (changes_a_bit, "weights of the model: 1.running_mean"),
        (adds_a_weight, "weights of the model: 0.gate"),
        (hooks_a_module, "forward hooks of 0, was 0, is 1"),
        (hooks_a_module_before, "forward pre hooks of the model, was 0, is 1"),
        (hooks_a_weight, "backward hooks of 0.weight, was 0, is 1"),
        (hooks_a_gradient, "post accumulate grad hooks of 0.weight, was 0, is 1"),
        (removes_a_hook, "forward hooks of 1, was 1, is 0"),
    ],
)
def test_what_is_left_behind_is_found_and_named(spoil, told):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()
    model[1].register_forward_hook(lambda *_: None)
    with pytest.raises(SideEffect, match="the method ") as caught, no_side_effects(model):
        spoil(model)
    assert told in str(caught.value)


SWITCHED = {
    "gradients being on": lambda: torch.set_grad_enabled(False),
    "torch's default dtype": lambda: torch.set_default_dtype(torch.float64),
    "torch's number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "the precision of torch's products in float32": lambda: torch.set_float32_matmul_precision("high"),
    "torch's deterministic algorithms being on": lambda: torch.use_deterministic_algorithms(True),
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", SWITCHED)
def test_a_switch_is_named_and_put_back(name, fails):
    assert SWITCHED.keys() == side_effects.SWITCHES.keys()
    before = side_effects.switches()
    kind, told = (ValueError, "the method's own") if fails else (SideEffect, name)
    with pytest.raises(kind, match=told), no_side_effects(nn.Linear(2, 2)):
        SWITCHED[name]()
        assert side_effects.switches() != before
        if fails:
            raise ValueError(told)
    assert side_effects.switches() == before


@pytest.fixture
def kept_hook() -> Iterator[list[str]]:
    """A hook on every module that somebody else has; what it was called for."""
    called: list[str] = []
    handle = global_hooks.register_module_forward_hook(lambda module, *_: called.append(type(module).__name__))
    yield called
    handle.remove()


@pytest.mark.parametrize("fails", [False, True])
def test_a_hook_on_every_module_is_found_and_gone_afterwards(fails, kept_hook):
    error = ValueError("the method's own") if fails else None
    kind, told = (ValueError, "own") if fails else (SideEffect, "forward hooks of every module, was 1, is 2")
    called: list[int] = []
    for _ in range(2):  # a second method begins without the hook of the first
        with pytest.raises(kind, match=told) as caught, no_side_effects(nn.Linear(2, 2)):
            global_hooks.register_module_forward_hook(lambda *_: called.append(1), with_kwargs=True, always_call=True)
            if error:
                raise error
        nn.Linear(2, 2)(torch.zeros(1, 2))
        assert not called
    assert kept_hook == ["Linear"] * 2
    assert not fails or "was 1, is 2" in caught.value.__notes__[0]


def test_a_hook_on_every_module_that_a_method_removes_is_there_again(kept_hook):
    with pytest.raises(SideEffect, match="was 1, is 0"), no_side_effects(nn.Linear(2, 2)):
        global_hooks._global_forward_hooks.clear()
    nn.Linear(2, 2)(torch.zeros(1, 2))
    assert kept_hook == ["Linear"]


def test_the_kind_of_hooks_on_gradients_is_free_again():
    """Torch takes either full hooks on every module or others; which it is stays after the last is removed."""
    before = global_hooks._global_is_full_backward_hook
    try:
        global_hooks._global_is_full_backward_hook = None  # whatever an earlier test has left
        with no_side_effects(nn.Linear(2, 2)):
            global_hooks.register_module_full_backward_hook(lambda *_: None).remove()
        assert global_hooks._global_is_full_backward_hook is None
    finally:
        global_hooks._global_is_full_backward_hook = before


def test_what_is_put_back_is_no_side_effect():
    model = nn.Linear(3, 4)
    with no_side_effects(model):
        handle = model.register_forward_hook(lambda *_: None)
        before = model.weight.data.clone()
        model.weight.data += 1
        model(torch.zeros(1, 3))
        handle.remove()
        model.weight.data = before


def drops_a_mask(view):
    del view.batches[0].inputs["attention_mask"]


def writes_ids(view):
    view.batches[1].inputs["input_ids"][0, 0] += 1


def writes_labels(view):
    view.batches[0].labels.zero_()


def drops_a_batch(view):
    view.batches.pop()


def closes_heads(view):
    view.kept[:] = False


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (drops_a_mask, "changed attention_mask of batch 0 of its view"),
        (writes_ids, "changed input_ids of batch 1 of its view"),
        (writes_labels, "changed labels of batch 0 of its view"),
        (drops_a_batch, r"changed input_ids of batch 1 and \d others of its view"),
        (closes_heads, "changed kept of its view"),
    ],
)
def test_texts_of_the_view_must_stay_as_they_are(spoil, told):
    batches = TINY.alone(TINY.sentences(7, count=2))
    view = TINY_MODELS[0].view(batches=[replace(batch, labels=batch.labels + 1) for batch in batches])
    with pytest.raises(SideEffect, match=told), same_texts(view):
        spoil(view)
    with pytest.raises(ValueError, match="own"), same_texts(view):
        raise ValueError("the method's own")
