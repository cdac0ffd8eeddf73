"""Taylor terms of each weight, from gradients that backward leaves on the weights, text by text."""

from __future__ import annotations

import pytest
import torch

from methods.checks.tiny import Batch
from methods.heads import gated, remove_heads
from methods.llm_pruner import llm_pruner
from tests.methods.activations import of_units
from tests.methods.heads.conftest import Zoo

VARIANTS = [("first", "sum"), ("second", "sum"), ("mixed", "sum"), ("vector", "sum"), ("first", "max")]
VARIANTS += [("first", "product")]


def gradients_of(view, texts):
    """Of the loss of each text, by path of an attention projection: (texts, outputs, inputs)."""
    paths = {path for site in view.heads.sites for path in (*site.projections.values(), site.output)}
    found = {path: [] for path in paths}
    view.model.requires_grad_(True)
    for text in texts:
        view.model.zero_grad()
        view.loss(text).sum().backward()
        for path, gradients in found.items():
            gradients.append(view.model.get_submodule(path).weight.grad.clone())
    view.model.zero_grad()
    view.model.requires_grad_(False)
    return {path: torch.stack(gradients) for path, gradients in found.items()}


def slow(view, gradients, order, combine):

    def importance(path, rows, columns):
        weight = view.model.get_submodule(path).weight[rows][:, columns]
        found = gradients[path][:, rows][:, :, columns]  # (texts, ...)
        g, h = found.mean(0), found.square().mean(0)
        terms = {"first": weight * g, "second": weight**2 * h, "mixed": weight * g - 0.5 * weight**2 * h}
        if order == "vector":
            return abs(sum((weight * g).flatten().tolist()))
        return sum(abs(term) for term in terms[order].flatten().tolist())

    of_heads = {}
    for index, site in enumerate(view.heads.sites):
        width = view.model.config.hidden_size
        everything = list(range(width))
        for head in range(site.num_heads):
            group = head // site.queries_per_group
            mine = [head * site.head_dim + i for i in range(site.head_dim)]
            shared = [group * site.head_dim + i for i in range(site.head_dim)]
            parts = [
                importance(site.projections["query"], mine, everything),
                importance(site.projections["key"], shared, everything) / site.queries_per_group,
                importance(site.projections["value"], shared, everything) / site.queries_per_group,
                importance(site.output, everything, mine),
            ]
            product = parts[0] * parts[1] * parts[2] * parts[3]
            of_heads[index, head] = {"sum": sum(parts), "max": max(parts), "product": product}[combine]
    return of_units(view, of_heads)


@pytest.mark.parametrize(("order", "combine"), VARIANTS)
def test_terms_of_each_weight(tiny, architecture, order, combine):
    sentences = tiny.sentences(0, count=5)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=1), tiny.batch(sentences[3:], second)]
    view = tiny.view(tiny.model(architecture, 0, torch.float64), batches, tiny.unit(architecture))
    view.model.requires_grad_(False)
    found = llm_pruner(view, order=order, combine=combine)
    assert not any(weight.requires_grad for weight in view.model.parameters())
    torch.testing.assert_close(
        found, slow(view, gradients_of(view, tiny.alone(sentences)), order, combine), rtol=1e-6, atol=1e-12
    )


@pytest.mark.parametrize("family", ["bert", "deberta", "gpt2", "opt"])
def test_a_layer_without_heads(tiny, family):
    """Scores of the heads that are left are those of the whole model in which the others are zero."""
    zoo = Zoo()
    batches = [Batch(zoo.batch(family), torch.tensor([0, 1, 2, 1]))]
    view = tiny.view(zoo.model(family, dtype=torch.float64).requires_grad_(False), batches)
    kept = view.heads.site_of_unit > 0
    smaller = tiny.view(remove_heads(view.model, kept, view.heads), batches)
    with gated(view.model, kept, view.heads):
        expected = llm_pruner(view)[kept]
    torch.testing.assert_close(llm_pruner(smaller), expected, rtol=1e-9, atol=1e-12)
