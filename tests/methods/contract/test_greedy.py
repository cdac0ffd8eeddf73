"""A greedy schedule gives the same order as scoring and removing heads step by step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from bench.measure.cost import counting
from methods.contract.schedule import Schedule, trajectories
from methods.entropy import attention_entropy
from methods.gnorm import gnorm
from methods.heads import HeadMap, Unit, gated, remove_heads
from methods.michel import michel
from tests.fixtures.slow import slow_cases

SCORERS = {
    "gnorm": gnorm,
    "gnorm of the loss": partial(gnorm, objective="loss", combine="sum"),
    "ae": attention_entropy,
    "michel": michel,
}


def on_smaller_model(view, mask):
    """A view of the model without the units that ``mask`` leaves out; the others keep their order and their heads.

    HeadMap.of is not asked for the units: with one query head left in every group, each would be a unit of its own.
    """
    smaller = remove_heads(view.model, mask, view.heads)
    left = list(view.heads.kept(mask).values())  # of each site, the heads that are left
    units = [
        Unit(unit.site, tuple(left[unit.site].index(head) for head in unit.heads))
        for unit, keep in zip(view.heads.units, mask.tolist(), strict=True)
        if keep
    ]
    heads = HeadMap(HeadMap.of(smaller).sites, tuple(units), view.heads.unit)
    return replace(view, model=smaller, heads=heads, kept=heads.full_mask())


def slow_greedy(view, score, step, inverse):
    """Score a model from which heads are removed, find the worst, map them back, and repeat."""
    left, removed = list(range(len(view.heads))), []
    while left:
        mask = torch.zeros(len(view.heads), dtype=torch.bool)
        mask[left] = True
        scores = score(on_smaller_model(view, mask)).tolist()
        assert len(scores) == len(left)
        ranked = sorted(zip(scores, left, strict=True), key=lambda pair: -pair[0] if inverse else pair[0])
        removed += [unit for _, unit in ranked[:step]]
        left = sorted(unit for _, unit in ranked[step:])
    return removed


@pytest.mark.parametrize(
    ("step", "inverse"),
    [(1, False), (3, True), *slow_cases((1, True), (3, False))],
)
@pytest.mark.parametrize("scorer", list(SCORERS))
def test_removing_heads_gives_the_same_order(tiny, architecture, scorer, step, inverse):
    view = tiny.random_view(architecture, seed=1, dtype=torch.float64)
    plan = Schedule(recompute=step, inverse=inverse)
    (actual,) = trajectories(SCORERS[scorer], view, plan)
    assert sorted(actual.order.tolist()) == list(range(len(view.heads)))  # nothing comes back, nothing is forgotten
    assert actual.order.tolist() == slow_greedy(view, SCORERS[scorer], step, inverse)


@pytest.mark.parametrize("scorer", list(SCORERS))
def test_a_gated_model_scores_like_the_smaller_one(tiny, architecture, scorer):
    """Up to rounding, not just in rank; with no head left in the first layer, unless it is the only one."""
    view = tiny.random_view(architecture, seed=2, dtype=torch.float64)
    kept = torch.arange(len(view.heads)) % 2 == 0
    kept &= (view.heads.site_of_unit != 0) | (len(view.heads.sites) == 1)
    expected = SCORERS[scorer](on_smaller_model(view, kept))
    with gated(view.model, kept, view.heads):
        actual = SCORERS[scorer](replace(view, kept=kept))
    tolerance = 1e-5 if architecture.startswith("llama") and scorer == "ae" else 1e-9  # its softmax is in float32
    torch.testing.assert_close(actual[kept].double(), expected.double(), rtol=tolerance, atol=1e-12)


def test_greedy_differs_from_one_shot(tiny):
    view = tiny.random_view("bert", seed=1)
    one_shot, greedy = (trajectories(gnorm, view, Schedule(recompute=every))[0] for every in (0, 1))
    assert one_shot.order.tolist() != greedy.order.tolist()


def test_the_working_copy_is_not_the_model(tiny, architecture):
    view = tiny.random_view(architecture)
    shapes, models = [], set()

    def score(now):
        shapes.append(now.heads.shape)
        models.add(id(now.model))
        assert now.kept.all() and len(now.kept) == len(now.heads) and now.memory is not None
        return torch.rand(len(now.heads), generator=now.generator)

    before = {name: value.clone() for name, value in view.model.state_dict().items()}
    trajectories(score, view, Schedule(recompute=2))
    assert [sum(shape) for shape in shapes] == list(range(len(view.heads), 0, -2))
    assert len(models) == 1 and id(view.model) not in models
    after = view.model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert HeadMap.of(view.model, view.heads.unit) == view.heads


def test_passes_through_the_working_copy_are_counted(tiny, architecture):
    view = tiny.random_view(architecture)
    units, texts = len(view.heads), view.examples
    for scorer, backward in ((gnorm, True), (michel, True), (attention_entropy, False)):
        with counting(view.model) as passes:
            trajectories(scorer, view, Schedule(recompute=1))
        assert (passes.forward, passes.backward) == (units * texts, backward * units * texts)
