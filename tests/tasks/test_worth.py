"""Every built-in task is learned from every seed, and its heads are what it is learned with.

Trains nine models: a few minutes on one thread.
"""

from __future__ import annotations

import pytest
import torch

from tasks.builtin import inference, languages, sentiment
from tasks.builtin.model import build
from tasks.encode import encode
from tasks.train import predict, train

MASKS = 10


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("module", "least"), [(sentiment, 0.95), (inference, 0.90), (languages, 0.95)])
def test_is_learned_and_needs_its_heads(module, least, seed):
    data, recipe = module.dataset(), module.RECIPE
    tokenizer, model = build(data, seed, pieces=getattr(module, "PIECES", None), max_length=recipe.max_length)
    report = train(model, tokenizer, data, recipe, seed)
    test = encode(data.test, tokenizer, recipe.max_length)
    truth = torch.tensor([example.label for example in data.test])

    def accuracy():
        return (predict(model, tokenizer, test) == truth).double().mean().item()

    full = accuracy()
    assert full >= least, report

    layers = [layer.attention.output.dense for layer in model.bert.encoder.layer]
    heads = model.config.num_attention_heads
    gates = torch.zeros(len(layers), heads)
    for place, dense in enumerate(layers):
        dense.register_forward_pre_hook(
            lambda _, inputs, place=place: inputs[0] * gates[place].repeat_interleave(inputs[0].shape[-1] // heads)
        )
    assert abs(accuracy() - 1 / len(data.labels)) <= 0.03

    halves = []
    for draw in range(MASKS):
        order = torch.randperm(gates.numel(), generator=torch.Generator().manual_seed(draw))
        gates.fill_(1).view(-1)[order[: gates.numel() // 2]] = 0
        halves.append(accuracy())
    assert sum(halves) / MASKS <= full - 0.08
