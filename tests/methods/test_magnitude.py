"""Norms of weights must be those of what each head's outputs become, however the weights are stored."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import transformers as t

from methods.heads import HeadMap
from methods.heads.surgery.shrink import shrink, working_copy
from methods.magnitude import magnitude

SIZES = {"vocab_size": 30, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
DECODER = {**SIZES, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12}
OTHERS = {  # Conv1D with one projection for three roles; and fused roles, by head and by role
    "gpt2": lambda: t.GPT2ForSequenceClassification(t.GPT2Config(n_embd=16, n_layer=2, n_head=4, **SIZES)),
    "gpt-neox": lambda: t.GPTNeoXForSequenceClassification(t.GPTNeoXConfig(**DECODER)),
    "phi3": lambda: t.Phi3ForSequenceClassification(t.Phi3Config(num_key_value_heads=2, **DECODER)),
}


def slow_magnitude(view):
    """From what the output projection makes of each unit vector, an output at a time."""
    importance = []
    for unit in view.heads.units:
        site = view.heads.sites[unit.site]
        linear = view.model.get_submodule(site.output)
        nothing = linear(torch.zeros(site.num_heads * site.head_dim))
        norms = []
        for head in unit.heads:
            squares = 0.0
            for place in range(head * site.head_dim, (head + 1) * site.head_dim):
                vector = torch.zeros(site.num_heads * site.head_dim)
                vector[place] = 1.0
                squares += sum(((linear(vector) - nothing) ** 2).tolist())
            norms.append(squares**0.5)
        importance.append(sum(norms) / len(norms))
    return torch.tensor(importance, dtype=torch.float64)


def test_norm_of_what_unit_vectors_become(tiny, architecture):
    view = tiny.view(tiny.model(architecture), [], tiny.unit(architecture))
    torch.testing.assert_close(magnitude(view), slow_magnitude(view), rtol=1e-5, atol=0)
    assert len(magnitude(view).unique()) == len(view.heads)


@pytest.mark.parametrize("family", list(OTHERS))
def test_however_weights_are_stored(tiny, family):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        view = tiny.view(OTHERS[family](), [])
    torch.testing.assert_close(magnitude(view), slow_magnitude(view), rtol=1e-4, atol=0)


def test_what_is_left_keeps_its_score(tiny, architecture):
    """Also beside a layer without any head."""
    model = tiny.model(architecture)
    heads = HeadMap.of(model)
    mask = torch.arange(len(heads)) % heads.shape[0] == 1
    mask &= (heads.site_of_unit != 0) | (len(heads.sites) == 1)
    smaller = working_copy(model)
    left = shrink(smaller, mask, heads)  # the same units, though in a map of this model alone they might be others
    view = replace(tiny.view(smaller, []), heads=left, kept=left.full_mask())
    torch.testing.assert_close(magnitude(view), magnitude(tiny.view(model, []))[mask])
