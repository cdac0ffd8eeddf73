"""The score without attention maps equals the one from attention maps, one text at a time."""

from __future__ import annotations

import pytest
import torch

from methods.heads import gated, observed
from methods.michel import michel
from methods.tis import tis
from tests.fixtures.slow import slow_cases


def slow_tis(view, texts):
    """|sum of A * dL/dA| from the maps that eager attention gives; the mean over texts, then over a unit's heads."""
    view.model.set_attn_implementation("eager")
    view.model.requires_grad_(True)  # or the first layer's maps have no gradient
    sums = {}
    for text in texts:
        output = view.model(**text.inputs, output_attentions=True)
        loss = view.loss_of_logits(output.logits, text).sum()
        maps = output.attentions  # (1, H, T, T) a layer
        slopes = torch.autograd.grad(loss, maps)
        for index, site in enumerate(view.heads.sites):
            for head in range(site.num_heads):
                product = sum((maps[layer] * slopes[layer])[0, head].sum().item() for layer in site.layers)
                sums[index, head] = sums.get((index, head), 0.0) + abs(product) / len(texts)
    view.model.requires_grad_(False)
    return torch.tensor(
        [sum(sums[unit.site, head] for head in unit.heads) / len(unit.heads) for unit in view.heads.units],
        dtype=torch.float64,
    )


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
def test_maps_of_each_text(tiny, architecture, seed, frozen):
    sentences = tiny.sentences(seed, count=5)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=2), tiny.batch(sentences[3:], second)]
    view = tiny.view(tiny.model(architecture, seed, torch.float64), batches, tiny.unit(architecture))
    view.model.requires_grad_(not frozen)
    actual = tis(view)
    # Eager Llama takes its softmax in float32 whatever the model's dtype.
    tolerance = 1e-4 if architecture.startswith("llama") else 1e-9
    torch.testing.assert_close(actual, slow_tis(view, tiny.alone(sentences)), rtol=tolerance, atol=tolerance / 100)


@pytest.mark.parametrize("model", ["bert", "albert"])
def test_with_one_head_per_unit_it_is_michel_without_norm(tiny, model):
    view = tiny.random_view(model, dtype=torch.float64)
    torch.testing.assert_close(tis(view), michel(view), rtol=1e-5, atol=0)  # gates are float32


def test_padded_queries_add_nothing(tiny, architecture):
    """The loss does not depend on contexts at padding."""
    view = tiny.random_view(architecture, dtype=torch.float64, longest=5)
    (batch,) = view.batches
    assert batch.inputs["attention_mask"].min() == 0
    contexts = []
    with observed(view.model, view.heads, context=lambda site, z: contexts.append(z.requires_grad_())):
        gradients = torch.autograd.grad(view.loss(batch).sum(), contexts)
    for gradient in gradients:
        assert gradient[batch.inputs["attention_mask"] == 0].eq(0).all()
        assert gradient.abs().sum() > 0


def test_removed_heads_score_nothing(tiny, architecture):
    view = tiny.random_view(architecture)
    kept = torch.arange(len(view.heads)) % 2 == 1
    with gated(view.model, kept, view.heads):
        assert tis(view)[~kept].eq(0).all()
