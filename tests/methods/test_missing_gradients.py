"""Scores by gradients where a part of the model has none: no head of cross attention reads the encoder."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import transformers as t
from torch.nn import functional as F

from methods import METHODS
from methods.calibration.neuron_gradients import neuron_gate_gradients
from methods.checks.tiny import Batch
from methods.heads import UnsupportedArchitecture, remove_heads
from tests.methods.heads.conftest import Zoo


def translating(tiny, model, count=4):
    """A view of an encoder-decoder of the zoo whose labels are the next tokens of its targets."""
    inputs = Zoo().batch("umt5")
    inputs["decoder_attention_mask"] = torch.ones_like(inputs["decoder_input_ids"])
    inputs = {name: rows[:count] for name, rows in inputs.items()}
    view = tiny.view(model.requires_grad_(False), [Batch(inputs, torch.zeros(count, dtype=torch.long))])
    targets = inputs["decoder_input_ids"][:, 1:]

    def loss(logits, batch):
        return F.cross_entropy(logits[:, :-1].mT, targets, reduction="none").mean(1)

    return replace(view, loss_of_logits=loss)


@pytest.mark.parametrize("name", ["attr", "gnorm", "hies", "llm-pruner", "michel", "tis"])
@pytest.mark.parametrize("family", ["umt5", "bert-to-gpt2"])
def test_heads_of_an_encoder_that_nothing_reads(tiny, name, family):
    whole = translating(tiny, Zoo().model(family))
    kinds = [whole.heads.sites[unit.site].kind for unit in whole.heads.units]
    kept = torch.tensor([kind != "cross" for kind in kinds])
    view = translating(tiny, remove_heads(whole.model, kept, whole.heads))
    scores = METHODS[name].function(view, **({"steps": 2} if name == "attr" else {}))
    encoder = torch.tensor([view.heads.sites[unit.site].kind == "encoder" for unit in view.heads.units])
    assert scores.isfinite().all()
    assert scores[~encoder].count_nonzero() == (~encoder).sum()
    if name != "hies":  # which adds the entropy of the map
        assert not scores[encoder].any()


@pytest.mark.parametrize("name", ["fisher", "gnorm", "llm-pruner", "michel", "path", "tis"])
@pytest.mark.parametrize("family", ["umt5", "bert-to-gpt2"])
def test_heads_of_an_encoder_that_are_the_last_ones(tiny, name, family):
    """Then no head at all is read from, as when a greedy order comes to its end."""
    whole = translating(tiny, Zoo().model(family))
    kept = torch.tensor([whole.heads.sites[unit.site].kind == "encoder" for unit in whole.heads.units])
    view = translating(tiny, remove_heads(whole.model, kept, whole.heads))
    scores = METHODS[name].function(view)
    assert scores.isfinite().all()
    if name != "path":  # whose scores are places in its order
        assert not scores.any()


def test_experts_do_not_say_which_texts_they_see(tiny):
    config = Zoo().model("switch").config
    config.encoder_sparse_step = config.decoder_sparse_step = 1
    config.num_experts, config.expert_capacity = 4, 64
    view = translating(tiny, t.SwitchTransformersForConditionalGeneration(config).eval())
    with pytest.raises(UnsupportedArchitecture, match=r"sees \d+ tokens of a batch, and of which texts is unknown"):
        list(neuron_gate_gradients(view))
