"""What holds for every registered method, on every kind of model. A new method is covered by being registered."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

from bench.selection import select
from methods import METHODS, Importance
from methods.heads import gated
from methods.schedule import Schedule

SCHEDULE = {field.name for field in dataclasses.fields(Schedule)}
BASES = [name for name, method in METHODS.items() if method.base == name]
UNTRAINED = [name for name in BASES if METHODS[name].shape != "joint"]


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:  # a method under each of its names
        metafunc.parametrize("name", list(METHODS))
    if "base" in metafunc.fixturenames:  # each function once, before any schedule
        metafunc.parametrize("base", BASES)
    if "untrained" in metafunc.fixturenames:  # those that answer from the calibration set
        metafunc.parametrize("untrained", UNTRAINED)


def answer(base, view):
    """A scorer's importances of units and of each layer's neurons, or another's mask with half of the units kept."""
    method = METHODS[base]
    options = {name: value for name, value in method.configure({}).items() if name not in SCHEDULE}
    half = len(view.heads) // 2
    if method.shape == "joint":
        (trained,) = method.function(view, [half], **options)
        return {"units": trained.mask}
    given = method.function(view, *([half] if method.shape == "selector" else []), **options)
    if isinstance(given, Importance):
        return {"units": given.units, **given.neurons}
    return {"units": given}


def state(view):
    """All that a method could leave behind."""
    modules = dict(view.model.named_modules())
    return {
        "weights": {name: _bits(value) for name, value in view.model.state_dict().items()},
        "requires_grad": {name: p.requires_grad for name, p in view.model.named_parameters()},
        "gradients": {name: p.grad is None for name, p in view.model.named_parameters()},
        "training": {name: module.training for name, module in modules.items()},
        "hooks": {name: _hooks(module) for name, module in modules.items()},
        "own attributes": {name: set(vars(module)) for name, module in modules.items()},
        "attention": {name: m.config._attn_implementation for name, m in modules.items() if hasattr(m, "config")},
        "random": (_bits(torch.get_rng_state()), random.getstate()),
        "gradients on": torch.is_grad_enabled(),
        "kept": _bits(view.kept),
        "inputs": [{key: _bits(value) for key, value in batch.inputs.items()} for batch in view.batches],
    }


def _bits(tensor):
    return tensor.dtype, tensor.shape, tensor.numpy().tobytes()


def _hooks(module):
    return {name: len(hooks) for name, hooks in vars(module).items() if name.endswith("_hooks")}


def assert_unchanged(view, before):
    after = state(view)
    assert [what for what in before if after[what] != before[what]] == []


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_model_is_left_as_it_was_found(tiny, architecture, name, attention, frozen):
    view = tiny.scene(architecture)
    view.model.set_attn_implementation(attention)
    for number, parameter in enumerate(view.model.parameters()):
        parameter.requires_grad_(not frozen and number % 2 == 0)
    before = state(view)
    select(METHODS[name], METHODS[name].configure({}), view, [0, 1, len(view.heads)])
    assert_unchanged(view, before)


def test_the_model_is_left_as_it_was_found_after_an_error(tiny, architecture, base):
    def forward(model, batch):
        model(**batch.inputs)
        raise ZeroDivisionError

    view = dataclasses.replace(tiny.scene(architecture), forward=forward)
    before = state(view)
    try:
        answer(base, view)
    except ZeroDivisionError:
        assert_unchanged(view, before)


def test_the_same_seed_gives_the_same_answer(tiny, architecture, name):
    method = METHODS[name]
    first, second = (
        select(method, method.configure({}), tiny.scene(architecture, seed=3), [0, 2, 3]) for _ in range(2)
    )
    assert torch.equal(first.masks, second.masks)
    assert first.orders == second.orders


def test_an_entry_for_every_unit(tiny, architecture, name):
    method, view = METHODS[name], tiny.scene(architecture)
    units = len(view.heads)
    levels = list(range(units + 1))
    selection = select(method, method.configure({}), view, levels)
    draws = len(selection.masks)
    assert selection.masks.dtype == torch.bool
    assert selection.masks.shape == (draws, len(levels), units)
    if selection.orders:
        assert [sorted(order) for order in selection.orders] == [list(range(units))] * draws
        assert (~selection.masks).sum(2).tolist() == [levels] * draws
        assert (selection.masks[:, :-1] >= selection.masks[:, 1:]).all()  # what is gone stays gone


def test_batch_size_and_padding_do_not_matter(tiny, architecture, untrained):
    model, sentences = tiny.model(architecture), tiny.sentences(7, count=7)
    side = tiny.sides(architecture)[0]
    ways = [
        tiny.alone(sentences),
        [tiny.batch(sentences)],
        [tiny.batch(sentences, side, extra=5)],
        [tiny.batch(sentences[5:], side, extra=1), tiny.batch(sentences[:3]), tiny.batch(sentences[3:5], side)],
    ]
    expected, *others = (answer(untrained, tiny.view(model, batches, tiny.unit(architecture))) for batches in ways)
    for other in others:
        torch.testing.assert_close(other, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_a_layer_may_be_gone(tiny, architecture, untrained, dtype):
    model, batches = tiny.model(architecture, dtype=dtype), [tiny.batch(tiny.sentences(2), extra=2)]
    view = tiny.view(model, batches, tiny.unit(architecture))
    for layer in range(len(view.heads.sites)):
        kept = view.heads.site_of_unit != layer
        with gated(model, kept, view.heads):
            scores = answer(untrained, dataclasses.replace(view, kept=kept))
        assert scores["units"].shape[-1] == len(view.heads)
        assert all(values.isfinite().all() for values in scores.values())


def test_bfloat16_says_much_the_same(tiny, architecture, untrained):
    expected, actual = (
        answer(untrained, tiny.scene(architecture, seed=5, dtype=dtype)) for dtype in (torch.float32, torch.bfloat16)
    )
    for name, values in expected.items():
        assert (actual[name].double() - values.double()).abs().max() < 0.1 * values.double().abs().max()
