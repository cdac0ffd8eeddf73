"""Why some models with plain projections are refused, as the documentation has it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as t

from methods.heads import HeadMap, UnsupportedArchitecture, observed
from tests.methods.heads.small_models import build

IDS = torch.arange(3, 12)[None]


@torch.no_grad()
def test_big_bird_replaces_its_attention_while_it_runs():
    model = build("big_bird", narrow=True)
    with pytest.raises(UnsupportedArchitecture, match="BigBirdBlockSparseAttention"):
        HeadMap.of(model)
    before = model.encoder.layer[0].attention.self
    model(IDS)
    after = model.encoder.layer[0].attention.self
    assert before is not after and after.query is before.query
    assert HeadMap.of(model)  # which has full attention now


def test_each_head_of_big_bird_draws_its_own_blocks_in_training():
    attention = build("big_bird", narrow=True).encoder.layer[0].attention.self.train()
    np.random.seed(0)  # as the module does at each pass, for all heads at once
    draws = [attention._bigbird_block_rand_mask(512, 512, 16, 16, num_rand_blocks=3) for _ in range(2)]
    assert (draws[0] != draws[1]).any()  # without the first head, the second would draw what the first one did


@torch.no_grad()
def test_openai_gpt_gives_a_list_and_has_no_width_of_a_head():
    model = build("openai-gpt", narrow=True)
    attention = model.h[0].attn
    with pytest.raises(UnsupportedArchitecture, match=r"Attention at h\.0\.attn"):
        HeadMap.of(model)
    width = model.config.n_embd // model.config.n_head
    assert width not in {value for value in vars(attention).values() if type(value) is int}
    attention.register_forward_hook(lambda module, args, output: tuple(output))
    with pytest.raises(TypeError, match="list"):
        model(IDS)


def test_japanese_gpt_neox_keeps_a_head_in_each_layer():
    """Its block takes three results of its attention, of which the map is not the last."""
    model = build("gpt_neox_japanese", narrow=True)
    heads = HeadMap.of(model)
    assert isinstance(model, t.GPTNeoXJapaneseModel) and heads.never_empty == (0, 1)
    with observed(model, heads, attention=lambda *_: None), pytest.raises(ValueError, match="did not return its"):
        model(IDS)
    assert "bias" not in dict(model.layers[1].attention.dense.named_parameters())


def test_norms_of_single_heads_are_refused():
    """Which norm is whose goes by the place of the head among those that are left."""
    sizes = {"hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 50}
    config = t.StableLmConfig(**sizes, num_attention_heads=4, num_key_value_heads=4)
    assert HeadMap.of(t.StableLmModel(config))
    config.qk_layernorm = True
    with pytest.raises(UnsupportedArchitecture, match=r"has a parameter q_layernorm\.norms\.0\.weight of shape \(8,\)"):
        HeadMap.of(t.StableLmModel(config))


def test_a_group_of_albert_that_no_layer_runs():
    model = t.AlbertModel(
        t.AlbertConfig(
            vocab_size=32,
            hidden_size=16,
            num_hidden_groups=3,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=16,
            embedding_size=8,
        )
    )
    with pytest.raises(UnsupportedArchitecture, match="no layer runs it"):
        HeadMap.of(model)
