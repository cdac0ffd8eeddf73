"""Models that share a mechanism with a family of the zoo: from small configurations, with the tests that show it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
import transformers as t

from methods.heads import HeadMap, UnsupportedArchitecture, gated, load_pruned, observed, remove_heads, save_pruned

SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 16,  # experts take no other in bfloat16
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
}
WIDTH = {"head_dim": 6}
WINDOW = {"sliding_window": 5}
EXPERTS = {
    **{
        "num_experts": 2,
        "num_local_experts": 2,
        "n_routed_experts": 2,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
    },
    **{"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "n_group": 1, "topk_group": 1},
}
LATENT = {
    **{"q_lora_rank": 10, "kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5},
    **{"num_key_value_heads": 4, "qk_head_dim": 10},
}
LINEAR = {
    "layer_types": ["linear_attention", "full_attention", "full_attention"],
    **{f"linear_{name}": 4 for name in ("num_value_heads", "key_head_dim", "value_head_dim", "head_dim", "num_heads")},
    **{"linear_num_key_heads": 2, "linear_conv_kernel_dim": 2},
}
SHARED = {
    **{"num_hidden_layers": 5, "num_kv_shared_layers": 2, "head_dim": 6, "sliding_window": 5},
    **{"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 40},
    "layer_types": [f"{kind}_attention" for kind in ("sliding", "sliding", "full", "sliding", "full")],
}
WHOLE = {"num_key_value_heads": 4}
ENCODER_DECODER = {
    **{"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_start_token_id": 1},
}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.7}  # on 4 of 6 entries
OPTIONS: dict[str, dict[str, Any]] = {
    # norms over the width of all heads
    "olmo3": WINDOW,
    "olmoe": EXPERTS | {"clip_qkv": 0.5},
    "flex_olmo": EXPERTS,
    "minimax_m2": EXPERTS | WIDTH,
    "olmo_hybrid": LINEAR,
    "esmc": {"num_key_value_heads": 4},
    # no positions in the last layer, a norm of each head's queries and keys, experts
    "smollm3": {"no_rope_layer_interval": 3},
    "llama4_text": {
        **EXPERTS,
        **WIDTH,
        **{"intermediate_size_mlp": 16, "attention_chunk_size": 4, "no_rope_layers": [1, 1, 0]},
    },
    # windows without a sliding cache
    "gpt_neo": {"num_layers": 3, "attention_types": [[["global", "local", "global"], 1]], "window_size": 5},
    # sinks
    "gpt_oss": EXPERTS | WIDTH | WINDOW,
    "granite_swa": WINDOW,
    "granitemoe_swa": EXPERTS | WINDOW,
    "flint": EXPERTS | WIDTH | WINDOW,
    "openai_privacy_filter": EXPERTS | WIDTH | WINDOW,
    # an output gate beside the queries
    "qwen3_5_text": LINEAR | WIDTH,
    "qwen3_5_moe_text": LINEAR | WIDTH | EXPERTS,
    # keys and values of earlier layers
    "gemma3n_text": SHARED | {"laurel_rank": 4, "activation_sparsity_pattern": None},
    "gemma4_text": SHARED | {"global_head_dim": 8, "attention_k_eq_v": True, "num_global_key_value_heads": 1},
    # latent attention
    "deepseek_v2": LATENT | EXPERTS | {"q_lora_rank": None},
    "glm4_moe_lite": LATENT | EXPERTS,
    "kimi_linear": LATENT | LINEAR | EXPERTS,
    "longcat_flash": LATENT | {"num_layers": 2, "head_dim": 4, "ffn_hidden_size": 20, "expert_ffn_hidden_size": 12},
    "minicpm3": LATENT,
    "mistral4": LATENT | EXPERTS,
    "youtu": LATENT,
    "axk1": LATENT | EXPERTS,
    # a gate of each head's context, from the input
    "afmoe": WIDTH | WINDOW | {"num_dense_layers": 3},
    "laguna": WIDTH | WINDOW | EXPERTS,
    "lfm3": WIDTH | {"layer_types": ["full_attention"] * 3, "use_attention_gate": True},
    "muse_spark_text": WIDTH | WINDOW | EXPERTS,
    # arguments with an entry for each head
    "layoutlmv3": WHOLE | {"coordinate_size": 4, "shape_size": 4, "visual_embed": False},
    "mpt": WHOLE | {"expansion_ratio": 1, "max_seq_len": 32},
    # contexts shaped by the width of the input, or by a number of their own
    "led": WHOLE | ENCODER_DECODER | {"attention_window": [4, 8, 4]},
    "trocr": WHOLE | ENCODER_DECODER,
    "xglm": WHOLE | {"ffn_dim": 20},
    # layers as in others, with other names for their arguments or modules
    "canine": WHOLE | {"num_hash_buckets": 50, "local_transformer_stride": 8, "downsampling_rate": 2},
    "imagegpt": WHOLE | {"n_inner": 20, "n_positions": 32},
    "mobilebert": WHOLE | {"embedding_size": 8, "intra_bottleneck_size": 16},
    "gpt_neox_japanese": {"intermediate_multiple_size": 1},
    "persimmon": WHOLE | {"qk_layernorm": True, "rope_parameters": ROPE},
    "deepseek_v32": LATENT | EXPERTS | {"index_n_heads": 2, "index_head_dim": 6, "index_topk": 4},
}


def build(model_type: str) -> t.PreTrainedModel:
    torch.manual_seed(0)
    config = t.AutoConfig.for_model(model_type, **SIZES | OPTIONS[model_type])
    kind = t.AutoModelForCausalLM if type(config) in t.AutoModelForCausalLM._model_mapping else t.AutoModel
    model = kind.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 or name.endswith(("bias", "sinks")):
                parameter.normal_(std=0.2)
    return model


def heads_that_stay(heads: HeadMap) -> torch.Tensor:
    """The last unit of each layer that cannot run without any head."""
    last = torch.cat([heads.site_of_unit.diff(), torch.ones(1)]).bool()
    return last & torch.tensor([site.never_empty for site in heads.sites])[heads.site_of_unit]


@pytest.mark.parametrize("model_type", OPTIONS)
@torch.no_grad()
@pytest.mark.slow
def test_gated_equals_removed_and_comes_back(zoo, model_type, tmp_path):
    model = build(model_type)
    heads, batch, longer = HeadMap.of(model), zoo.batch("llama", "left"), zoo.batch("llama", "right", 12)
    real = batch["attention_mask"].bool()
    whole = model(**batch)[0][real]
    for name, mask in zoo.masks(heads).items():
        mask |= heads_that_stay(heads)
        with gated(model, mask, heads):
            expected = model(**batch)[0][real]
        smaller = remove_heads(model, mask, heads)
        actual = smaller(**batch)[0][real]
        zoo.assert_close(actual, expected, what=name)
        with gated(model, mask, heads):
            of_longer = model(**longer)[0]
        places = longer["attention_mask"].bool()
        zoo.assert_close(smaller(**longer)[0][places], of_longer[places], what=f"{name}, more tokens")
        if hasattr(sys.modules[type(model).__module__], "eager_attention_forward"):
            with zoo.zeroed(model, mask, heads):
                zoo.assert_close(model(**batch)[0][real], expected, what=name)
        assert mask.all() == torch.allclose(expected, whole), f"{name}: heads of no effect show nothing"
        if isinstance(model, t.GenerationMixin):
            with gated(model, mask, heads):
                tokens = model.generate(**batch, max_new_tokens=5)
            assert torch.equal(smaller.generate(**batch, max_new_tokens=5), tokens), name
        save_pruned(smaller, tmp_path / name)
        loaded = load_pruned(tmp_path / name)
        assert HeadMap.of(loaded).sites == HeadMap.of(smaller).sites
        zoo.assert_close(loaded(**batch)[0][real], actual, what=name)  # sums depend on where in memory weights begin
        weights = dict(smaller.named_parameters())
        assert all(torch.equal(each, weights.pop(path)) for path, each in loaded.named_parameters()) and not weights


@pytest.mark.slow
@pytest.mark.parametrize("model_type", OPTIONS)
@torch.no_grad()
def test_gated_equals_removed_in_bfloat16(zoo, model_type):
    model, batch = build(model_type).bfloat16(), zoo.batch("llama", "right")
    heads, real = HeadMap.of(model), batch["attention_mask"].bool()
    zoo.assert_ones_change_nothing(model, heads, batch)
    mask = zoo.masks(heads)["no head in the first site"] | heads_that_stay(heads)
    with gated(model, mask, heads):
        expected = model(**batch)[0][real]
    zoo.assert_close(remove_heads(model, mask, heads)(**batch)[0][real].float(), expected.float(), torch.bfloat16)


def test_a_layer_whose_keys_others_read_keeps_a_head_and_all_keys():
    model = build("gemma3n_text")
    heads = HeadMap.of(model)
    assert [site.source[-11:] for site in heads.sites] == ["", "", "", "1.self_attn", "2.self_attn"]
    assert heads.shape == (2, 2, 2, 2, 2)  # groups, but query heads in the layers 1 and 2
    assert [unit.heads for unit in heads.units if unit.site in (0, 1)] == [(0, 1), (2, 3), (0, 2), (1, 3)]
    smaller = remove_heads(model, torch.arange(len(heads)) % 2 == 0, heads)
    rows = [layer.self_attn.k_proj.out_features for layer in smaller.model.layers[:3]]
    assert rows == [6, 12, 12]
    with pytest.raises(UnsupportedArchitecture, match="for other layers: keep a head"):
        remove_heads(model, heads.site_of_unit != 1, heads)


@pytest.mark.parametrize("model_type", ["gemma3n_text", "gemma4_text"])
def test_gradients_where_keys_are_shared(model_type):
    """Each layer that reads keys and values is given the whole gradient of the projections that they come from."""
    model = build(model_type)
    whole = HeadMap.of(model)
    smaller = remove_heads(model, torch.arange(len(whole)) % 5 != 4, whole)
    ids = torch.randint(3, 40, (1, 7), generator=torch.Generator().manual_seed(1))
    found = {}

    def add(site: int, inputs: dict[str, torch.Tensor], grads: dict[str, torch.Tensor]) -> None:
        assert site not in {index for index, _ in found}
        for role in ("query", "key", "value"):
            found[site, role] = torch.einsum("btd,bthe->hed", inputs[role], grads[role]).flatten(0, 1)

    heads = HeadMap.of(smaller)
    with observed(smaller, heads, gradients=add):
        smaller(ids)[0].norm().backward()
    assert len(found) == 3 * len(heads.sites)
    smaller(ids)[0].norm().backward()
    for (index, role), gradient in found.items():
        site = heads.sites[index]
        rows = site.rows(role, list(range(site.heads_of(role))))
        expected = smaller.get_submodule(site.projections[role]).weight.grad[rows]
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())
