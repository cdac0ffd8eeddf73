"""Gradients along the path of a closing gate: slopes at each point, text by text, and what they add up to."""

from __future__ import annotations

import pytest
import torch

from methods.heads import gated
from methods.michel import michel
from methods.path import path

STEP = 1e-5


def slope(view, text, gates, unit):
    """Of the loss in one gate, by central differences."""
    losses = []
    for change in (STEP, -STEP):
        moved = gates.clone()
        moved[unit] += change
        with torch.no_grad(), gated(view.model, moved, view.heads):
            losses.append(view.loss(text).item())
    return (losses[0] - losses[1]) / (2 * STEP)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("along", ["layer", "all"])
def test_slopes_at_midpoints_of_each_text(tiny, architecture, along, signed):
    points, sentences = 3, tiny.sentences(0, count=4)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=1), tiny.batch(sentences[3:], second)]
    view = tiny.view(tiny.model(architecture, 0, torch.float64), batches, tiny.unit(architecture))
    expected = torch.zeros(len(view.heads), dtype=torch.float64)
    for text in tiny.alone(sentences):
        for number, unit in enumerate(view.heads.units):
            mine = view.heads.site_of_unit == unit.site if along == "layer" else torch.ones(len(view.heads)).bool()
            slopes = [
                slope(view, text, torch.where(mine, value, 1.0).double(), number) for value in (1 / 6, 3 / 6, 5 / 6)
            ]
            integral = sum(slopes) / points
            expected[number] += (-integral if signed else abs(integral)) / len(sentences)
    found = path(view, along=along, points=points, signed=signed)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_with_all_gates_together_importances_add_up_to_the_rise_of_the_loss(tiny, architecture):
    view = tiny.view(
        tiny.model(architecture, 0, torch.float64), [tiny.batch(tiny.sentences(0))], tiny.unit(architecture)
    )
    losses = []
    for value in (1.0, 0.0):
        with torch.no_grad(), gated(view.model, torch.full((len(view.heads),), value), view.heads):
            losses.append(view.loss(view.batches[0]).mean().item())
    total = path(view, along="all", points=100, signed=True).sum().item()
    assert total == pytest.approx(losses[1] - losses[0], abs=2e-3)


def test_random_gates_come_near_the_shapley_values_of_products_of_gates(tiny, monkeypatch):
    """Each product is halved between its two units."""
    view = tiny.view(tiny.model("bert"), [tiny.batch(tiny.sentences(0, count=6))])
    generator = torch.Generator().manual_seed(0)
    single = torch.randn(8, dtype=torch.float64, generator=generator)
    pairs = torch.randn(8, 8, dtype=torch.float64, generator=generator).triu(1)

    def gradients(view, batch, gates):
        gates = gates.double().requires_grad_()
        loss = -(single @ gates) - torch.einsum("ub,uv,vb->b", gates, pairs, gates)
        return torch.autograd.grad(loss.sum(), gates)[0]

    monkeypatch.setattr("methods.path.gradients_at", gradients)
    found = path(view, along="random", points=3000, signed=True)
    torch.testing.assert_close(found, single + (pairs.sum(0) + pairs.sum(1)) / 2, rtol=0, atol=0.05)


def test_where_the_loss_is_linear_on_the_whole_path_it_is_the_gradient_at_the_open_gate(tiny, architecture):
    view = tiny.view(
        tiny.model(architecture, 0, torch.float64), [tiny.batch(tiny.sentences(0))], tiny.unit(architecture)
    )
    with torch.no_grad():
        for site in view.heads.sites:
            view.model.get_submodule(site.output).weight *= 1e-6  # heads that hardly matter
    torch.testing.assert_close(path(view), michel(view), rtol=1e-3, atol=1e-12)
