"""The controls: random removal and no removal."""

from __future__ import annotations

import pytest
import torch

from methods.none import none
from methods.random import random


@pytest.mark.parametrize("draws", [1, 3])
def test_random_has_a_row_a_draw(tiny, architecture, draws):
    view = tiny.view(tiny.model(architecture), [], tiny.unit(architecture))
    assert random(view, draws=draws).shape == (draws, len(view.heads))


def test_random_draws_from_its_generator_only(tiny):
    model = tiny.model("bert")
    before = torch.get_rng_state()
    one, same, other = (random(tiny.view(model, [], seed=seed)) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_random_is_uniform(tiny):
    """Each of 8 units is the first to go in an eighth of 4000 draws: 500, standard deviation 21."""
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
