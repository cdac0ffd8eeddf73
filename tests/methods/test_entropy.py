"""Entropies on padded batches equal those of each text alone, computed from the attentions that the model returns."""

from __future__ import annotations

import math

import pytest
import torch

from methods.entropy import attention_entropy
from tests.methods.activations import of_units
from tests.methods.translating import FAMILIES, maps_of, translating


def row_entropy(row, variant, eps):
    """Entropy of one attention row, term by term."""
    total = 0.0
    for a in row:
        if variant == "A":
            total -= a * math.log(a) if a > 0 else 0.0
        elif variant == "B":
            total -= a * math.log(a + eps) if a > 0 else 0.0
        else:
            total -= (a + eps) * math.log(a + eps)
    return total


def slow_entropy(view, texts, variant, eps):
    """Mean over rows, then over texts and a tied layer's calls, then over a unit's heads; minus that."""
    view.model.set_attn_implementation("eager")
    sums = {}
    for text in texts:
        with torch.no_grad():
            attentions = view.model(**text.inputs, output_attentions=True).attentions  # (1, H, T, T) a layer
        for index, site in enumerate(view.heads.sites):
            for layer in site.layers:
                for head in range(site.num_heads):
                    rows = attentions[layer][0, head].double().tolist()
                    mean = sum(row_entropy(row, variant, eps) for row in rows) / len(rows)
                    sums[index, head] = sums.get((index, head), 0.0) + mean / site.calls / len(texts)
    return -torch.tensor(
        [sum(sums[unit.site, head] for head in unit.heads) / len(unit.heads) for unit in view.heads.units],
        dtype=torch.float64,
    )


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize(("variant", "eps"), [("A", 0.0), ("B", 1e-2), ("C", 1e-2), ("C", 1e-7), ("B", 0.0)])
def test_each_text_alone(tiny, architecture, variant, eps, padding):
    seed = len(padding)
    sentences = tiny.sentences(seed, count=5, longest=7)
    batches = [tiny.batch(sentences[:2], padding, extra=2), tiny.batch(sentences[2:], padding)]
    tolerances = {torch.float32: 1e-5, torch.float64: 1e-10}
    if architecture.startswith("llama"):
        del tolerances[torch.float64]  # eager Llama takes its softmax in float32 whatever the model's dtype
    for dtype, tolerance in tolerances.items():
        view = tiny.view(tiny.model(architecture, seed, dtype), batches, tiny.unit(architecture))
        actual = attention_entropy(view, variant=variant, eps=eps)
        expected = slow_entropy(view, tiny.alone(sentences), variant, eps)
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_the_variants_tell_apart(tiny):
    view = tiny.random_view("bert", dtype=torch.float64)
    a, b, c = (attention_entropy(view, variant=variant, eps=1e-3) for variant in "ABC")
    assert (b > a).all()  # log(a + eps) is larger than log a, so the entropy smaller
    assert (c < b).all()


def test_uniform_attention_has_the_entropy_log_of_the_length(tiny):
    model = tiny.model("bert", dtype=torch.float64)
    heads = tiny.view(model, []).heads
    for site in heads.sites:
        torch.nn.init.zeros_(model.get_submodule(site.projections["query"]).weight)
        torch.nn.init.zeros_(model.get_submodule(site.projections["query"]).bias)
    sentences = tiny.sentences(0, count=4)
    expected = -sum(math.log(len(ids)) for ids, _ in sentences) / 4
    actual = attention_entropy(tiny.view(model, [tiny.batch(sentences)]), variant="A")
    torch.testing.assert_close(actual, torch.full_like(actual, expected))


def test_a_probability_of_zero_adds_nothing(tiny):
    """With huge scores the attention underflows to exact zeros and ones."""
    model = tiny.model("bert")
    for site in tiny.view(model, []).heads.sites:
        model.get_submodule(site.projections["query"]).weight.data *= 1e6
    view = tiny.view(model, [tiny.batch(tiny.sentences(0))])
    for variant, eps in [("A", 0.0), ("B", 0.0), ("C", 0.0), ("C", 1e-7)]:
        assert attention_entropy(view, variant=variant, eps=eps).abs().max() < 1e-2


@pytest.mark.parametrize("variant", ["A", "C"])
@pytest.mark.parametrize("family", FAMILIES)
def test_cross_attention_of_the_tokens_of_targets_to_those_of_sources(family, variant):
    view, pairs = translating(family, 2)
    of_heads = {}
    for index, head, rows in maps_of(view, pairs):
        terms = [-row_entropy(row, variant, 1e-7) for row in rows]
        of_heads[index, head] = of_heads.get((index, head), 0.0) + sum(terms) / len(rows) / len(pairs)
    actual = attention_entropy(view, variant=variant)
    torch.testing.assert_close(actual, of_units(view, of_heads), rtol=1e-4, atol=1e-5)
