"""Models that share a mechanism with a family of the zoo: from small configurations, with the tests that show it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as t

from methods.heads import HeadMap, gated, load_pruned, remove_heads, save_pruned

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
OPTIONS: dict[str, dict[str, Any]] = {
    # norms over the width of all heads
    "olmo3": WINDOW,
    "olmoe": EXPERTS | {"clip_qkv": 0.5},
    "flex_olmo": EXPERTS,
    "minimax_m2": EXPERTS | WIDTH,
    "olmo_hybrid": LINEAR,
    "esmc": {"num_key_value_heads": 4},
    # sinks
    "gpt_oss": EXPERTS | WIDTH | WINDOW,
    "granite_swa": WINDOW,
    "granitemoe_swa": EXPERTS | WINDOW,
    "flint": EXPERTS | WIDTH | WINDOW,
    "openai_privacy_filter": EXPERTS | WIDTH | WINDOW,
    # an output gate beside the queries
    "qwen3_5_text": LINEAR | WIDTH,
    "qwen3_5_moe_text": LINEAR | WIDTH | EXPERTS,
    # latent attention
    "deepseek_v2": LATENT | EXPERTS | {"q_lora_rank": None},
    "glm4_moe_lite": LATENT | EXPERTS,
    "kimi_linear": LATENT | LINEAR | EXPERTS,
    "longcat_flash": LATENT | {"num_layers": 2, "head_dim": 4, "ffn_hidden_size": 20, "expert_ffn_hidden_size": 12},
    "minicpm3": LATENT,
    "mistral4": LATENT | EXPERTS,
    "youtu": LATENT,
    "axk1": LATENT | EXPERTS,
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


@pytest.mark.parametrize("model_type", OPTIONS)
@torch.no_grad()
def test_gated_equals_removed_and_comes_back(zoo, model_type, tmp_path):
    model = build(model_type)
    heads, batch = HeadMap.of(model), zoo.batch("llama", "left")
    real = batch["attention_mask"].bool()
    whole = model(**batch)[0][real]
    for name, mask in zoo.masks(heads).items():
        with gated(model, mask, heads):
            expected = model(**batch)[0][real]
        smaller = remove_heads(model, mask, heads)
        actual = smaller(**batch)[0][real]
        zoo.assert_close(actual, expected, what=name)
        with zoo.zeroed(model, mask, heads):
            zoo.assert_close(model(**batch)[0][real], expected, what=name)
        assert mask.all() == torch.allclose(expected, whole), f"{name}: heads of no effect show nothing"
        if isinstance(model, t.GenerationMixin):
            steps = [smaller.generate(**batch, max_new_tokens=5, use_cache=cache).tolist() for cache in (True, False)]
            assert steps[0] == steps[1], name
        save_pruned(smaller, tmp_path / name)
        loaded = load_pruned(tmp_path / name)
        assert torch.equal(loaded(**batch)[0][real], actual) and HeadMap.of(loaded).sites == HeadMap.of(smaller).sites


@pytest.mark.parametrize("model_type", OPTIONS)
@torch.no_grad()
def test_gated_equals_removed_in_bfloat16(zoo, model_type):
    model, batch = build(model_type).bfloat16(), zoo.batch("llama", "right")
    heads, real = HeadMap.of(model), batch["attention_mask"].bool()
    mask = zoo.masks(heads)["no head in the first site"]
    with gated(model, mask, heads):
        expected = model(**batch)[0][real]
    zoo.assert_close(remove_heads(model, mask, heads)(**batch)[0][real].float(), expected.float(), torch.bfloat16)
