"""Leave-one-out must be what trying every unit on the smaller model gives, and its greedy order that of brute force."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
import transformers as t

from methods import METHODS
from methods.checks.tiny import Batch
from methods.contract.choosing import select
from methods.heads import gated, remove_heads
from methods.oracle_greedy import leave_one_out


def mean_loss(view, sentences, mask, tiny):
    """Of the physically smaller model, text by text."""
    smaller = remove_heads(view.model, mask, view.heads)
    with torch.no_grad():
        losses = [view.loss_of_logits(view.forward(smaller, text), text).double() for text in tiny.alone(sentences)]
    return torch.cat(losses).mean().item()


def without(kept, unit):
    return kept & (torch.arange(len(kept)) != unit)


@pytest.mark.parametrize("tokens", [1, 40, 4096])
def test_trying_each_unit_on_the_smaller_model(tiny, architecture, tokens):
    model, sentences = tiny.model(architecture, dtype=torch.float64), tiny.sentences(3, count=5)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=1), tiny.batch(sentences[3:], second)]
    view = tiny.view(model, batches, tiny.unit(architecture))
    full = view.heads.full_mask()
    expected = torch.tensor(
        [mean_loss(view, sentences, without(full, unit), tiny) for unit in range(len(full))], dtype=torch.float64
    ) - mean_loss(view, sentences, full, tiny)
    torch.testing.assert_close(leave_one_out(view, tokens=tokens), expected, rtol=1e-5, atol=1e-8)


def test_units_that_are_gone(tiny, architecture):
    view, sentences = tiny.random_view(architecture, seed=4, dtype=torch.float64), tiny.sentences(4)
    kept = torch.arange(len(view.heads)) % 3 != 0
    view = tiny.view(view.model, view.batches, view.heads.unit, kept)
    with gated(view.model, kept, view.heads):
        actual = leave_one_out(view)
    base = mean_loss(view, sentences, kept, tiny)
    for unit, value in enumerate(actual.tolist()):
        expected = mean_loss(view, sentences, without(kept, unit), tiny) - base if kept[unit] else 0.0
        assert value == pytest.approx(expected, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("step", [1, 2])
def test_greedy_is_brute_force(tiny, architecture, step):
    sentences = tiny.sentences(1, count=3)
    model = tiny.model(architecture, 1, torch.float64)
    view = tiny.view(model, [tiny.batch(sentences)], tiny.unit(architecture))
    kept, expected = view.heads.full_mask(), []
    while kept.any():
        units = kept.nonzero().flatten().tolist()
        expected += sorted(units, key=lambda unit: mean_loss(view, sentences, without(kept, unit), tiny))[:step]
        kept[expected] = False
    method = METHODS["oracle-greedy"]
    assert method.control and method.configure({})["recompute"] == 1
    assert select(method, method.configure({"recompute": step}), view, [0]).orders == [expected]


@pytest.mark.parametrize("method", ["leave-one-out", "oracle-greedy", "shapley"])
def test_labels_with_several_entries(tiny, method):
    """Scores as with one label for each example, if the loss is the same; and one line if it is not per example."""
    view = tiny.random_view("bert", dtype=torch.float64)
    (batch,) = view.batches
    wide = dataclasses.replace(batch, labels=batch.labels[:, None].expand(-1, 5))
    method = METHODS[method]

    def order(batch, loss):
        now = dataclasses.replace(view, batches=[batch], loss_of_logits=loss, generator=torch.Generator())
        return select(method, method.configure({}), now, [3]).orders

    expected = order(batch, view.loss_of_logits)
    assert order(wide, lambda logits, batch: F.cross_entropy(logits, batch.labels[:, 0], reduction="none")) == expected
    with pytest.raises(ValueError, match=r"must have shape \(\d+,\), not \(\d+, 5\)$"):
        order(wide, lambda logits, batch: batch.labels.double())


def test_images_have_no_tokens(tiny):
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = t.ViTForImageClassification(t.ViTConfig(**sizes, num_labels=3, image_size=8, patch_size=4)).eval()
    images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    view = tiny.view(model.requires_grad_(False), [Batch({"pixel_values": images}, torch.tensor([0, 1, 2, 0]))])
    (batch,) = view.batches

    def loss(mask):
        with torch.no_grad():
            return view.loss_of_logits(view.forward(remove_heads(model, mask, view.heads), batch), batch).mean()

    full = view.heads.full_mask()
    expected = torch.stack([loss(without(full, unit)) for unit in range(len(full))]) - loss(full)
    torch.testing.assert_close(leave_one_out(view).float(), expected, rtol=1e-4, atol=1e-6)
