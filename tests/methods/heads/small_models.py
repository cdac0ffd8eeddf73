"""A small random model of any model type of transformers, made from its default configuration without network."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import torch
import transformers as t
from transformers.models.auto import modeling_auto

WIDTH, HEADS, LAYERS, INNER, VOCABULARY, IMAGE, PATCH, MELS = 32, 4, 2, 40, 64, 32, 8, 16
DEPTHS = (
    (
        LAYERS,
        "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers "
        "num_decoder_layers depth encoder_depth decoder_depth encoder_num_hidden_layers decoder_num_hidden_layers "
        "num_blocks num_sub_layers max_window_layers layers",
    ),
    (
        VOCABULARY,
        "vocab_size vocab_size_per_layer_input text_vocab_size entity_vocab_size vocab_offset "
        "audio_vocab_size codebook_size",
    ),
    (128, "max_position_embeddings n_positions max_source_positions max_target_positions"),
    (4, "sliding_window attention_window local_attention"),
    (1, "bos_token_id n_group n_groups topk_group num_nextn_predict_layers"),
    (0, "first_k_dense_replace"),
    (IMAGE, "image_size"),
)
WIDTHS = (
    (
        WIDTH,
        "hidden_size d_model n_embd dim embed_dim emb_dim word_embed_proj_dim projection_dim decoder_hidden_size "
        "encoder_hidden_size encoder_embed_dim decoder_embed_dim mamba_d_ssm width vision_width adapter_hidden_size "
        "cross_attention_dim cross_attention_hidden_size classifier_proj_size linear_conv_dim lru_width hidden_dim "
        "vision_hidden_size text_hidden_size audio_hidden_size output_hidden_size out_hidden_size vision_embed_dim "
        "subsampling_conv_channels projector_hidden_size hidden_size_global",
    ),
    (16, "embedding_size kv_lora_rank q_lora_rank o_lora_rank qk_head_dim mamba_d_state"),
    (2, "num_experts_per_tok num_experts_per_token top_k_experts moe_topk moe_k spatial_merge_size"),
    (
        HEADS,
        "num_attention_heads n_head num_heads n_heads encoder_attention_heads decoder_attention_heads "
        "attention_heads encoder_num_attention_heads decoder_num_attention_heads mamba_n_heads mamba_num_heads "
        "num_experts num_local_experts n_routed_experts moe_num_experts linear_num_key_heads linear_num_value_heads "
        "num_conv_pos_embedding_groups num_head layer_num_attention_heads linear_num_heads index_n_heads",
    ),
    (
        8,
        "head_dim d_kv mamba_d_head mamba_head_dim ssm_state_size linear_key_head_dim linear_value_head_dim "
        "v_head_dim qk_nope_head_dim qk_rope_head_dim hidden_size_per_layer_input num_conv_pos_embeddings "
        "linear_head_dim attention_head_size global_head_dim dim_head swa_head_dim swa_v_head_dim",
    ),
    (
        INNER,
        "intermediate_size ffn_dim d_ff n_inner encoder_ffn_dim decoder_ffn_dim moe_intermediate_size dim_ff "
        "ffn_hidden_size shared_expert_intermediate_size moe_shared_expert_intermediate_size intermediate_size_mlp "
        "mlp_dim block_ff_dim encoder_intermediate_size decoder_intermediate_size moe_ffn_hidden_size",
    ),
    (PATCH, "patch_size"),
    (MELS, "num_mel_bins input_feat_per_channel"),
)
# What some model types need beside that to be built or to run.
NEEDED: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": INNER},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "mamba_d_head": 16},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "mistral4": {"qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "qk_head_dim": 8},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "step3p5": {"sliding_window": 4},
    "xmod": {"default_language": "en_XX"},
}


def model_types() -> list[str]:
    """All model types of transformers."""
    return sorted(t.CONFIG_MAPPING)


def small_config(model_type: str, narrow: bool = True) -> Any:
    """The default configuration with two layers and few words; if ``narrow``, also four heads of width 8."""
    default = t.CONFIG_MAPPING[model_type]().to_dict()
    sizes = _by_name(DEPTHS) | (_by_name(WIDTHS) if narrow else {})
    return t.CONFIG_MAPPING[model_type].from_dict(_shrink(default, sizes) | NEEDED.get(model_type, {}))


def _by_name(sizes: tuple[tuple[int, str], ...]) -> dict[str, int]:
    return {name: size for size, names in sizes for name in names.split()}


def _shrink(options: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    depths = {options[name] for name in _by_name(DEPTHS) if name.find("lay") >= 0 and type(options.get(name)) is int}
    heads = next((options[name] for name in ("num_attention_heads", "num_heads") if options.get(name)), None)
    result = dict(options)
    for name, value in options.items():
        if isinstance(value, dict) and not name.startswith(("rope", "id2", "label2")):
            result[name] = _shrink(value, sizes)
        elif isinstance(value, list) and len(value) in depths and len(value) > LAYERS:  # one entry per layer
            kinds = list(dict.fromkeys(map(str, value)))
            result[name] = [next(each for each in value if str(each) == kind) for kind in kinds[:LAYERS]]
            result[name] = (result[name] * LAYERS)[:LAYERS]
        elif (
            name in ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
            and "hidden_size" in sizes
            and value
        ):
            result[name] = HEADS if value == heads else min(value, 2)
        elif name.endswith(("_token_id", "_token_index")) and type(value) is int and value >= VOCABULARY:
            result[name] = 50 + sum(map(ord, name)) % 13
        elif name in sizes and type(value) in (int, float) and value:
            result[name] = sizes[name]
    for name in ("out_features", "out_indices", "stage_names", "per_layer_config"):  # follow from the number of layers
        result.pop(name, None)
    for name in ("pad_token_id",):
        if name in result and (result[name] is None or result[name] >= VOCABULARY):
            result[name] = 0
    if "hidden_size" in sizes:
        filled = {"head_dim": WIDTH // HEADS, "num_key_value_heads": HEADS, "vocab_size": VOCABULARY}
        filled["num_experts_per_tok"] = 2
        filled |= {"layer_types": ["full_attention"] * LAYERS, "mlp_layer_types": ["dense"] * LAYERS}
        result |= {name: size for name, size in filled.items() if name in result and result[name] is None}
        rope = result.get("rope_parameters")
        if (
            isinstance(rope, dict) and rope.get("rope_type") == "default"
        ):  # what else rotates three kinds of positions has a default
            half = int(WIDTH // HEADS * rope.get("partial_rotary_factor", 1)) // 2
            result["rope_parameters"] = rope | {"mrope_section": [1, 1, half - 2]}
    if "eos_token_id" in result:
        result["eos_token_id"] = 2
    return result


def classes_of(model_type: str) -> Iterator[type[t.PreTrainedModel]]:
    """The model classes of a model type: the base model, then those with heads, then any with its configuration."""
    maps = ["MODEL", "MODEL_FOR_CAUSAL_LM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM", "MODEL_FOR_IMAGE_TEXT_TO_TEXT"]
    maps += sorted(
        name.removesuffix("_MAPPING_NAMES")
        for name in vars(modeling_auto)
        if name.startswith("MODEL_FOR_") and name.endswith("_MAPPING_NAMES")
    )
    seen = set()
    for each in maps:
        names = getattr(modeling_auto, f"{each}_MAPPING_NAMES").get(model_type, ())
        for name in [names] if isinstance(names, str) else names:
            if name not in seen and isinstance(found := getattr(t, name, None), type):
                seen.add(name)
                yield found
    config = t.CONFIG_MAPPING[model_type]
    module = config.__module__.replace("configuration_", "modeling_")
    try:
        modeling = importlib.import_module(module)
    except ImportError:
        return
    for name, found in vars(modeling).items():
        fits = isinstance(found, type) and issubclass(found, t.PreTrainedModel) and not name.endswith("PreTrainedModel")
        if fits and name not in seen and found.config_class is config:
            yield found


def randomize(model: torch.nn.Module) -> None:
    """Give every weight random values, so large that heads differ, and that no output is much larger than its input."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not (parameter.is_floating_point() and parameter.numel()):
                continue
            if parameter.dim() > 1:
                spread = (parameter.numel() / len(parameter)) ** -0.5
            elif name.endswith("bias"):
                spread = 0.2
            else:
                continue
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)


def build(model_type: str, narrow: bool, device: str = "cpu") -> t.PreTrainedModel:
    """A small model in evaluation mode, of the first class that takes the configuration.

    Raises what the last class raised, or LookupError if there is none.
    """
    config = small_config(model_type, narrow)
    error: Exception = LookupError("transformers has no model class for this configuration")
    for model_class in classes_of(model_type):
        try:
            torch.manual_seed(0)
            with torch.device(device):
                return model_class(config).eval()
        except Exception as failed:  # whatever a class refuses
            error = failed
    raise error
