"""Scores from contexts alone equal their formulas, written with loops over heads, channels and tokens."""

from __future__ import annotations

import pytest
import torch

from methods import METHODS
from methods.contract.choosing import select
from methods.flap import flap
from methods.minitron import minitron
from methods.wanda_sp import wanda_sp
from tests.methods.activations import contexts_of, of_units, weights_of


@pytest.fixture(params=[0, 1])
def scene(tiny, architecture, request):
    """A view whose texts lie in two batches with padding, and each text alone."""
    sentences = tiny.sentences(request.param, count=5)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=request.param), tiny.batch(sentences[3:], second)]
    model = tiny.model(architecture, request.param, torch.float64)
    return tiny.view(model, batches, tiny.unit(architecture)), tiny.alone(sentences)


def fluctuation(channel):
    mean = sum(channel) / len(channel)
    return sum((value - mean) ** 2 for value in channel) / len(channel)


def slow_flap(view, texts):
    """Without and with standardising over the units of a layer."""
    of_heads = {}
    for (site, head), tokens in contexts_of(view, texts).items():
        weights = weights_of(view, site, head)
        channels = [
            fluctuation(tokens[:, j].tolist()) * sum(value**2 for value in weights[j].tolist())
            for j in range(tokens.shape[1])
        ]
        of_heads[site, head] = sum(channels) / len(channels)
    plain = of_units(view, of_heads)
    expected = torch.zeros_like(plain)
    for site in range(len(view.heads.sites)):
        mine = [unit for unit in range(len(plain)) if view.heads.units[unit].site == site]
        values = [plain[unit].item() for unit in mine]
        for unit in mine:
            expected[unit] = (plain[unit] - sum(values) / len(values)) / fluctuation(values) ** 0.5
    return plain, expected


def test_flap(scene):
    view, texts = scene
    plain, expected = slow_flap(view, texts)
    torch.testing.assert_close(flap(view, standardise=False), plain, rtol=1e-9, atol=0)
    torch.testing.assert_close(flap(view), expected.float(), rtol=1e-6, atol=1e-9)


def test_flap_standardises_over_the_units_that_are_left(tiny):
    kept = torch.tensor([True, False, True, True, False, False, False, True])
    view = tiny.view(tiny.model("bert"), [tiny.batch(tiny.sentences(0))], kept=kept)
    importance = flap(view)
    assert importance[:4][kept[:4]].mean().abs() < 1e-6 and importance[:4][kept[:4]].std(correction=0) == pytest.approx(
        1
    )
    assert importance[7] == 0  # alone in its layer


def slow_minitron(view, texts):
    squares = {}
    for text in texts:
        calls = torch.tensor([site.calls for site in view.heads.sites])
        for (site, head), tokens in contexts_of(view, [text]).items():
            for call in tokens.chunk(int(calls[site])):
                means = [sum(abs(value) for value in column.tolist()) / len(column) for column in call.T]
                squares[site, head] = squares.get((site, head), 0.0) + sum(mean**2 for mean in means)
    return of_units(view, squares).sqrt()


def test_minitron(scene):
    torch.testing.assert_close(minitron(scene[0]), slow_minitron(*scene), rtol=1e-9, atol=0)


def slow_wanda_sp(view, texts):
    of_heads = {}
    for (site, head), tokens in contexts_of(view, texts).items():
        weights = weights_of(view, site, head)
        of_heads[site, head] = sum(
            sum(abs(value) for value in weights[j].tolist()) / weights.shape[1] * tokens[:, j].norm().item()
            for j in range(tokens.shape[1])
        )
    return of_units(view, of_heads)


def test_wanda_sp(scene):
    torch.testing.assert_close(wanda_sp(scene[0]), slow_wanda_sp(*scene), rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ["minitron", "wanda-sp"])
def test_every_layer_loses_as_many(tiny, name):
    view = tiny.view(tiny.model("llama"), [tiny.batch(tiny.sentences(0))], "query")
    (masks,) = select(METHODS[name], METHODS[name].configure({}), view, [0, 2, 4]).masks
    assert masks.unflatten(1, (2, 2)).sum(2).tolist() == [[2, 2], [1, 1], [0, 0]]
