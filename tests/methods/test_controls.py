"""The controls: random removal and no removal."""

from __future__ import annotations

import pytest
import torch

from methods import METHODS
from methods.contract.choosing import select
from methods.heads import find_mlps
from methods.none import none
from methods.random import random


@pytest.mark.parametrize("draws", [1, 3])
def test_random_has_one_row_per_draw(tiny, architecture, draws):
    view = tiny.view(tiny.model(architecture), [], tiny.unit(architecture))
    assert random(view, draws=draws).shape == (draws, len(view.heads))


def test_random_draws_from_its_generator_only(tiny):
    model = tiny.model("bert")
    before = torch.get_rng_state()
    one, same, other = (random(tiny.view(model, [], seed=seed)) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_heads_are_drawn_alike_with_or_without_neurons(tiny, architecture):
    """A record of random removal keeps its meaning: these are the first draws of the seed's generator."""
    heads, both, neurons = (
        random(tiny.view(tiny.model(architecture), [], tiny.unit(architecture), seed=3), draws=2, parts=parts)
        for parts in ("heads", "both", "neurons")
    )
    assert torch.equal(heads, torch.rand(heads.shape, generator=torch.Generator().manual_seed(3)))
    assert torch.equal(both.units, heads)
    assert neurons.units is None
    assert {name: scores.shape for name, scores in neurons.neurons.items()} == {
        mlp.name: (2, mlp.width) for mlp in find_mlps(tiny.model(architecture))
    }
    assert all(torch.equal(neurons.neurons[name], both.neurons[name]) for name in both.neurons)
    rows = [row for scores in both.neurons.values() for row in scores]
    assert all(0 <= row.min() <= row.max() < 1 for row in rows)
    assert len(torch.unique(torch.stack(rows), dim=0)) == len(rows)


def test_the_control_of_amp_takes_the_same_share_of_every_layer(tiny, architecture):
    view, method = tiny.view(tiny.model(architecture), [], tiny.unit(architecture)), METHODS["random-both"]
    options = method.configure({})
    layers, per_layer = len(view.heads.shape), view.heads.shape[0]
    for draw in select(method, options, view, [layers * count for count in range(per_layer + 1)]).choices:
        for count, choice in enumerate(draw):
            lost = torch.bincount(view.heads.site_of_unit[~choice.mask], minlength=layers)
            assert lost.tolist() == [count] * layers
            assert {int((~mask).sum()) for mask in choice.neurons.values()} == {12 * count // per_layer}


def test_random_is_uniform(tiny):
    """Each of 8 units is removed first in an eighth of 4000 draws: 500, standard deviation 21."""
    view = tiny.view(tiny.model("bert"), [])
    scores = random(view, draws=4000)
    assert 0 <= scores.min() < 0.01 < 0.99 < scores.max() < 1
    assert abs(scores.mean().item() - 0.5) < 0.01
    first = torch.bincount(scores.argmin(1), minlength=8)
    assert 400 < first.min() <= first.max() < 600
    assert len(torch.unique(scores, dim=0)) == 4000


@pytest.mark.parametrize("keep", [0, 3, 8])
def test_none_removes_nothing_whatever_the_budget(tiny, keep):
    mask = none(tiny.view(tiny.model("bert"), []), keep)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [True] * 8
