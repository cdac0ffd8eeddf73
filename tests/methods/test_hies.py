"""HIES equals its formula, written with loops over texts, heads and tokens."""

from __future__ import annotations

import math

import pytest
import torch

from methods.hies import _scaled, hies, normalised_entropy
from methods.tis import tis
from tests.fixtures.slow import slow_cases
from tests.methods.activations import of_units
from tests.methods.translating import FAMILIES, maps_of, translating


def slow_entropy(view, texts):
    """Of the attention maps that the model itself returns, text by text."""
    of_heads = {}
    view.model.set_attn_implementation("eager")
    for text in texts:
        with torch.no_grad():
            maps = view.model(**text.inputs, output_attentions=True).attentions
        calls = [site.calls for site in view.heads.sites]
        for index, site in enumerate(view.heads.sites):
            for attention in maps[index * calls[index] :][: calls[index]]:  # (1, H, T, T)
                n = attention.shape[2]
                for head in range(site.num_heads):
                    rows = [-sum(a * math.log(a) for a in row if a > 0) for row in attention[0, head].double().tolist()]
                    value = sum(rows) / n / math.log(n) if n > 1 else 0.0
                    place = index, head
                    of_heads[place] = of_heads.get(place, 0.0) + value / len(texts) / calls[index]
    return of_units(view, of_heads)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_cross_attention_are_of_targets_and_columns_of_sources(family):
    view, pairs = translating(family, 0)
    of_heads = {}
    for index, head, rows in maps_of(view, pairs):
        n = len(rows[0])
        entropies = [-sum(a * math.log(a) for a in row if a > 0) for row in rows]
        share = sum(entropies) / len(rows) / math.log(n) if n > 1 else 0.0
        of_heads[index, head] = of_heads.get((index, head), 0.0) + share / len(pairs)
    torch.testing.assert_close(normalised_entropy(view), of_units(view, of_heads), rtol=1e-4, atol=1e-6)


def scaled(values):
    low, high = min(values.tolist()), max(values.tolist())
    return (values - low) / (high - low)


@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
def test_the_mixture(tiny, architecture, seed):
    sentences = [*tiny.sentences(seed, count=4), *tiny.sentences(seed, count=1, longest=1)]
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=seed), tiny.batch(sentences[3:], second)]
    view = tiny.view(tiny.model(architecture, seed), batches, tiny.unit(architecture))
    entropy = slow_entropy(view, tiny.alone(sentences))
    torch.testing.assert_close(normalised_entropy(view), entropy, rtol=1e-4, atol=1e-6)
    importance, spread = scaled(tis(view)), scaled(entropy)
    close = {"rtol": 1e-3, "atol": 1e-4}
    torch.testing.assert_close(hies(view, weight=0.3), 0.3 * importance + 0.7 * (1 - spread), **close)
    torch.testing.assert_close(hies(view, weight=0.3, sign="spread"), 0.3 * importance + 0.7 * spread, **close)
    torch.testing.assert_close(hies(view, weight=1.0), importance, **close)


def test_units_that_are_gone_take_no_part_in_the_scaling(tiny):
    kept = torch.tensor([True, True, False, True, True, True, False, True])
    view = tiny.view(tiny.model("bert"), [tiny.batch(tiny.sentences(0))], kept=kept)
    left = hies(view, weight=1.0)[kept]
    assert (left.min(), left.max()) == (0, 1)


def test_the_scaling_goes_by_the_units_that_are_left(tiny):
    kept = torch.tensor([True, True, False, True, True, True, False, True])
    view = tiny.view(tiny.model("bert"), [tiny.batch(tiny.sentences(0))], kept=kept)
    values = torch.tensor([3.0, 2.0, 9.0, 4.0, 5.0, 6.0, -9.0, 4.0], dtype=torch.float64)
    assert _scaled(values, view)[kept].tolist() == [0.25, 0.0, 0.5, 0.75, 1.0, 0.5]
