"""Training without removed heads: gives the weights of training with their gates at zero, written out."""

from __future__ import annotations

import copy
import dataclasses
from itertools import islice

import pytest
import torch

from methods.contract.choice import Choice
from methods.heads import find_mlps, gated
from methods.training import smaller as smaller_module
from methods.training.smaller import smaller_training_copy, train_remaining

STEPS, SEED = 4, 7


def scene(tiny, architecture, dtype=torch.float32):
    """A view without dropout, whose draws would differ between models of different sizes."""
    batches = [tiny.batch(tiny.sentences(seed), extra=seed) for seed in range(2)]
    view = tiny.view(tiny.model(architecture, dtype=dtype), batches, tiny.unit(architecture))
    for module in view.model.modules():
        for name in ("p", "dropout_prob", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return dataclasses.replace(view, training=dataclasses.replace(view.training, steps=STEPS))


def masks(view):
    """Every third unit gone, the lowest layer without heads, and no head left."""
    units = torch.arange(len(view.heads))
    return [units % 3 != 0, view.heads.site_of_unit != 0, units < 0]


@pytest.mark.parametrize("case", range(3))
def test_it_is_training_with_gates_of_zero(tiny, architecture, case):
    view = scene(tiny, architecture, torch.float64)
    mask = masks(view)[case]
    model = copy.deepcopy(view.model).train().requires_grad_(True)
    optimizer, schedule = view.training.optimizer(model)
    for batch in islice(view.training.batches(), STEPS):
        with gated(model, mask, view.heads):
            view.loss_of_logits(view.forward(model, batch), batch).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), view.training.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    trained, _ = train_remaining(view, mask, SEED)
    expected = Choice(model, view.heads, mask).smaller()
    actual = Choice(trained, view.heads, mask).smaller()
    for (name, weight), other in zip(expected.named_parameters(), actual.parameters(), strict=True):
        torch.testing.assert_close(other, weight.detach(), rtol=1e-7, atol=1e-9, msg=name, check_stride=False)
    assert any(not torch.equal(weight, view.model.get_parameter(name)) for name, weight in trained.named_parameters())


@pytest.mark.parametrize("portion", [1, 2**26])
def test_weights_of_what_is_removed_stay_as_they_were(tiny, architecture, monkeypatch, portion):
    monkeypatch.setattr(smaller_module, "PORTION", portion)
    view = scene(tiny, architecture)
    before = copy.deepcopy(view.model.state_dict())
    mask = masks(view)[0]
    neurons = {mlp.name: torch.arange(mlp.width) % 2 == 0 for mlp in find_mlps(view.model)}
    with smaller_training_copy(view, SEED, mask, neurons) as (smaller, whole), torch.no_grad():
        assert smaller.training and sum(p.numel() for p in smaller.parameters()) < sum(
            p.numel() for p in whole.parameters()
        )
        for weight in smaller.parameters():
            weight += 1
    assert not any(p.requires_grad for p in (*smaller.parameters(), *whole.parameters()))
    assert not (smaller.training or whole.training)
    written = Choice(whole, view.heads, mask, neurons).smaller()
    for (name, weight), expected in zip(written.named_parameters(), smaller.parameters(), strict=True):
        assert torch.equal(weight, expected), name
    for site, index in [(site, index) for index, site in enumerate(view.heads.sites)]:
        gone = (~mask[view.heads.unit_of_head(index)]).repeat_interleave(site.head_dim)
        weight, former = whole.get_submodule(site.output).weight, before[f"{site.output}.weight"]
        assert torch.equal(weight[:, gone], former[:, gone])
        assert torch.equal(weight[:, ~gone], former[:, ~gone] + 1)
    for mlp in find_mlps(view.model):
        weight, former = whole.get_submodule(mlp.output).weight, before[f"{mlp.output}.weight"]
        assert torch.equal(weight[:, ~neurons[mlp.name]], former[:, ~neurons[mlp.name]])
    assert all(torch.equal(view.model.state_dict()[name], value) for name, value in before.items())


def test_half_precision_is_trained_in_float32_and_rounded_at_the_end(tiny, architecture):
    halves = scene(tiny, architecture, torch.bfloat16)
    whole = dataclasses.replace(halves, model=copy.deepcopy(halves.model).float())
    mask = masks(halves)[0]
    expected, trained = (train_remaining(view, mask, SEED)[0] for view in (whole, halves))
    for (name, value), weight in zip(expected.named_parameters(), trained.parameters(), strict=True):
        assert weight.dtype == torch.bfloat16
        torch.testing.assert_close(weight.float(), value.bfloat16().float(), rtol=0.01, atol=1e-3, msg=name)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_named(tiny, bad):
    view = scene(tiny, "bert")
    broken = dataclasses.replace(view, loss_of_logits=lambda logits, batch: logits.sum(1) * bad)
    with pytest.raises(FloatingPointError, match=r"^loss is -?(nan|inf) at step 1 of 4 of training weights$"):
        train_remaining(broken, masks(view)[0], SEED)
