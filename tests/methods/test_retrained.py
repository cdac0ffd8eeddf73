"""The controls of joint methods: heads of a scorer, with weights trained as a joint method trains them."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from methods import METHODS
from methods.contract.choosing import select
from methods.heads import gated
from methods.random import random, random_to_train


def chosen(name, view, removed):
    method = METHODS[name]
    return select(method, method.configure({}), view, removed)


def test_the_heads_are_those_of_the_scorer(tiny, architecture):
    removed = [1, 3]
    expected = chosen("michel", tiny.random_view(architecture, seed=2), removed).masks
    assert torch.equal(chosen("michel-retrained", tiny.random_view(architecture, seed=2), removed).masks, expected)


def test_random_heads_are_nested_and_follow_the_seed(tiny):
    views = [replace(tiny.random_view("bert"), generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    masks = [chosen("random-retrained", view, [2, 5]).masks[0] for view in views]
    assert torch.equal(masks[0], masks[1]) and not torch.equal(masks[0], masks[2])
    assert (masks[0][0] >= masks[0][1]).all()


@pytest.mark.parametrize("seed", range(3))
def test_random_heads_are_no_draw_of_random(tiny, seed):
    """Nor part of one: under one seed, the two controls would otherwise not be independent."""
    many = tiny.view(tiny.model("bert", layers=8), [])
    view = replace(many, generator=torch.Generator().manual_seed(seed))
    chosen_here, other = random_to_train(view), random(view, draws=50)
    assert not torch.isin(chosen_here, other).any()
    assert torch.equal(random_to_train(view), chosen_here)  # whatever was drawn before


@pytest.mark.parametrize("name", ["michel-retrained", "random-retrained"])
def test_training_is_that_of_the_task_with_the_other_heads_gated_off(tiny, name):
    """Written out step by step, with the dropout of the tiny models switched off."""
    view = tiny.random_view("bert", seed=3)
    view.model.config.hidden_dropout_prob = 0.0
    for module in view.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    view.model.set_attn_implementation("eager")
    for module in view.model.modules():
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = 0.0
    (choice,) = chosen(name, view, [3]).choices[0]
    model = copy.deepcopy(view.model).train().requires_grad_(True)
    optimizer, schedule = view.training.optimizer(model)
    batches = view.training.batches()
    for _ in range(view.training.steps):
        batch = next(batches)
        with gated(model, choice.mask, view.heads):
            view.loss_of_logits(view.forward(model, batch), batch).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), view.training.clip)
        optimizer.step()
        schedule.step()
        model.zero_grad()
    for (where, actual), expected in zip(choice.model.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(actual, expected.detach(), rtol=1e-4, atol=1e-6, msg=where)
    assert not torch.equal(choice.model.classifier.weight, view.model.classifier.weight)
