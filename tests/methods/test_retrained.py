"""The controls of joint methods: heads of a scorer, with weights trained as a joint method trains them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from methods import METHODS
from methods.contract.choosing import select
from methods.random import random, random_to_train
from methods.training.smaller import train_remaining


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


@pytest.mark.parametrize("choice", ["michel", "random"])
def test_other_weights_to_start_from_leave_the_choice_of_heads_to_the_tasks_model(tiny, choice):
    view, first = tiny.random_view("bert", seed=2), tiny.model("bert", seed=7)
    from_there = replace(view, training=replace(view.training, initial=first.state_dict()))
    method = METHODS[f"{choice}-retrained"]
    (found,) = method.function(from_there, [5], **method.configure({"start": "pretrained"}))
    (usual,) = method.function(tiny.random_view("bert", seed=2), [5], **method.configure({}))
    assert torch.equal(found.mask, usual.mask)
    # A learning rate of zero shows where it started.
    still = replace(view.training, initial=first.state_dict(), learning_rate=0.0)
    (start,) = method.function(replace(view, training=still), [5], **method.configure({"start": "pretrained"}))
    for name, value in first.state_dict().items():
        torch.testing.assert_close(start.model.state_dict()[name], value)


@pytest.mark.parametrize("seed", range(3))
def test_random_heads_are_no_draw_of_random(tiny, seed):
    """Nor part of one: under one seed, the two controls would otherwise not be independent."""
    many = tiny.view(tiny.model("bert", layers=8), [])
    view = replace(many, generator=torch.Generator().manual_seed(seed))
    chosen_here, other = random_to_train(view), random(view, draws=50)
    assert not torch.isin(chosen_here, other).any()
    assert torch.equal(random_to_train(view), chosen_here)  # whatever was drawn before


@pytest.mark.parametrize("name", ["michel-retrained", "random-retrained"])
def test_the_weights_of_each_level_are_trained_without_the_other_heads(tiny, name):
    view = tiny.random_view("bert", seed=3)
    for module in view.model.modules():  # without dropout, training draws nothing
        for attribute in ("p", "dropout_prob"):
            if isinstance(getattr(module, attribute, None), float):
                setattr(module, attribute, 0.0)
    found = chosen(name, view, [0, 3])
    assert found.choices[0][0].model is view.model
    trained, mask = found.choices[0][1].model, found.masks[0][1]
    for (where, weight), other in zip(
        train_remaining(view, mask, seed=0)[0].named_parameters(), trained.parameters(), strict=True
    ):
        assert torch.equal(other, weight), where
    assert not torch.equal(trained.classifier.weight, view.model.classifier.weight)
