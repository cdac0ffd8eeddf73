"""Block OBS against least squares solved anew for every set of units that may go."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.cost import counting
from methods import METHODS
from methods.contract.choosing import select
from methods.heads import gated, remove_heads
from methods.obs import greedy_removal, obs, obs_compensated
from tests.methods.activations import contexts_of, weights_of


def best_weights(inputs, weight, gone, ridge):
    """Least squares without the rows ``gone``, with a ridge towards the old weights: weights, and what they cost."""
    stay = [row for row in range(len(weight)) if row not in gone]
    equations = torch.cat([inputs, ridge**0.5 * torch.eye(len(weight), dtype=torch.float64)])
    change = torch.zeros_like(weight)
    change[gone] = -weight[gone]
    if stay:
        change[stay] = torch.linalg.lstsq(equations[:, stay], -equations @ change, driver="gels").solution
    return weight + change, ((equations @ change) ** 2).sum().item() / 2


def slow_removal(inputs, weight, blocks, ridge):
    """Try every unit in turn, with the best weights for what is left: (unit, what its removal adds) in order."""
    gone, paid = [], 0.0
    while len(gone) < len(blocks):
        costs = {}
        for unit in range(len(blocks)):
            if unit not in gone:
                rows = [row for other in [*gone, unit] for row in blocks[other]]
                costs[unit] = best_weights(inputs, weight, rows, ridge)[1] - paid
        best = min(costs, key=costs.__getitem__)
        gone.append(best)
        paid += costs[best]
        yield best, costs[best]


@st.composite
def layers(draw):
    units, size, outputs = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    tokens = draw(st.integers(1, 20))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    inputs = torch.randn(tokens, units * size, dtype=torch.float64, generator=generator)
    return inputs, torch.randn(units * size, outputs, dtype=torch.float64, generator=generator), units


@given(layers(), st.sampled_from([0.01, 1.0]))
def test_units_go_as_by_solving_least_squares_for_each(layer, ridge):
    inputs, weight, units = layer
    blocks = torch.arange(len(weight)).view(units, -1).tolist()
    matrix = inputs.T @ inputs + ridge * torch.eye(len(weight), dtype=torch.float64)
    fast, slow = list(greedy_removal(matrix, weight, units)), list(slow_removal(inputs, weight, blocks, ridge))
    assert [unit for unit, _ in fast] == [unit for unit, _ in slow]
    assert [cost for _, cost in fast] == pytest.approx([cost for _, cost in slow], rel=1e-6, abs=1e-9)


@pytest.fixture(params=[0, 1])
def scene(tiny, architecture, request):
    """A view whose texts lie in two batches with padding, and by site its inputs, weights, blocks of rows and ridge."""
    sentences = tiny.sentences(request.param, count=5)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=request.param), tiny.batch(sentences[3:], second)]
    view = tiny.view(tiny.model(architecture, request.param, torch.float64), batches, tiny.unit(architecture))
    contexts, problems = contexts_of(view, tiny.alone(sentences)), []
    for index, site in enumerate(view.heads.sites):
        heads = range(site.num_heads)
        inputs = torch.cat([contexts[index, head] for head in heads], 1)
        weight = torch.cat([weights_of(view, index, head) for head in heads])
        of_units = [unit.heads for unit in view.heads.units if unit.site == index]
        blocks = [[head * site.head_dim + i for head in unit for i in range(site.head_dim)] for unit in of_units]
        problems.append((inputs, weight, blocks, 0.01 * inputs.square().sum().item() / inputs.shape[1]))
    return view, problems


def test_the_order_is_that_of_always_removing_the_cheapest_unit_of_all_layers(scene):
    view, problems = scene
    begins = [view.heads.site_of_unit.tolist().index(index) for index in range(len(problems))]
    removals = []
    for inputs, weight, blocks, ridge in problems:
        energy = ((inputs @ weight) ** 2).sum().item() / 2
        removals.append([(unit, cost / energy) for unit, cost in slow_removal(inputs, weight, blocks, ridge)])
    order, largest, importance = [], [0.0] * len(problems), torch.zeros(len(view.heads), dtype=torch.float64)
    while any(removals):
        site = min((site for site, left in enumerate(removals) if left), key=lambda site: removals[site][0][1])
        unit, cost = removals[site].pop(0)
        order.append(begins[site] + unit)
        largest[site] = max(largest[site], cost)
        importance[order[-1]] = largest[site]
    torch.testing.assert_close(obs(view), importance, rtol=1e-6, atol=1e-12)
    assert select(METHODS["obs"], METHODS["obs"].configure({}), view, [0]).orders == [order]


def test_a_unit_that_costs_little_once_another_has_gone_goes_after_it(tiny):
    """Heads 0 and 1 nearly cancel: head 1 goes first, and what makes up for it leaves little of head 0."""
    view = tiny.random_view("bert", dtype=torch.float64, count=20)
    site, noise = view.heads.sites[0], torch.Generator().manual_seed(0)
    with torch.no_grad():
        for role, path in site.projections.items():
            layer = view.model.get_submodule(path)
            layer.weight[4:8], layer.bias[4:8] = layer.weight[:4], layer.bias[:4]
            if role == "value":
                layer.weight[4:8] += 0.1 * torch.randn(4, 16, dtype=torch.float64, generator=noise)
        weight = view.model.get_submodule(site.output).weight
        weight[:, 4:8] = -0.99 * weight[:, :4]
    importance = obs(view)
    assert importance[1] < importance[0] < importance[1] * (1 + 1e-9)
    (order,) = select(METHODS["obs"], METHODS["obs"].configure({}), view, [0]).orders
    assert order.index(0) == order.index(1) + 1


def test_compensated_weights_are_the_least_squares(scene):
    view, problems = scene
    units = len(view.heads)
    before = {name: weight.clone() for name, weight in view.model.state_dict().items()}
    for keep, trained in zip(range(units), obs_compensated(view, range(units)), strict=True):
        assert trained.mask.sum() == keep
        outputs = {f"{site.output}.weight" for site in view.heads.sites}
        for name, weight in trained.model.state_dict().items():
            assert name in outputs or torch.equal(weight, before[name])
        for index, (inputs, weight, blocks, ridge) in enumerate(problems):
            kept = trained.mask[view.heads.site_of_unit == index].tolist()
            gone = [row for block, keeps in zip(blocks, kept, strict=True) if not keeps for row in block]
            expected, _ = best_weights(inputs, weight, gone, ridge)
            found = trained.model.get_submodule(view.heads.sites[index].output).weight.T
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


def test_compensated_is_what_obs_removes(tiny):
    view = tiny.random_view("bert")
    for allocation in ("global", "layer"):
        options = {"allocation": allocation}
        masks = [
            select(METHODS[name], METHODS[name].configure(options), view, [2, 5]).masks
            for name in ("obs", "obs-compensated")
        ]
        assert torch.equal(*masks)


def test_units_that_are_gone_have_no_part(tiny):
    view = tiny.random_view("bert", dtype=torch.float64)
    kept = torch.tensor([True, True, False, True, False, False, False, False])
    with gated(view.model, kept, view.heads):
        part = tiny.view(view.model, view.batches, kept=kept)
        rest = obs(part)
        with torch.no_grad():
            view.model.get_submodule(view.heads.sites[0].output).weight[:, 8:12] = 100.0
        assert torch.equal(obs(part)[kept], rest[kept])


def test_units_that_are_gone_are_as_those_removed(tiny):
    view = tiny.random_view("bert", dtype=torch.float64)
    kept = torch.tensor([True, True, False, True, False, True, True, False])
    with gated(view.model, kept, view.heads):
        found = obs(tiny.view(view.model, view.batches, kept=kept))[kept]
    smaller = tiny.view(remove_heads(view.model, kept, view.heads), view.batches)
    torch.testing.assert_close(found, obs(smaller), rtol=1e-9, atol=1e-12)


def test_a_layer_whose_heads_give_nothing_goes_first(tiny):
    view = tiny.random_view("bert")
    value = view.model.get_submodule(view.heads.sites[0].projections["value"])
    with torch.no_grad():
        value.weight.zero_()
        value.bias.zero_()
    importance = obs(view)
    assert (importance[:4] == 0).all() and (importance[4:] > 0).all()


@pytest.mark.parametrize("name", ["obs", "obs-compensated"])
def test_it_takes_one_forward_pass(tiny, name):
    view = tiny.random_view("bert")
    with counting(view.model) as passes:
        select(METHODS[name], METHODS[name].configure({}), view, [0, 2, 4, 8])
    assert (passes.forward, passes.backward) == (6, 0)
