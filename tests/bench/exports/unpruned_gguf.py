"""A GGUF file of a Llama as llama.cpp's converter writes it, but for the tokenizer, which is none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter, quantize
from transformers import LlamaForCausalLM, PreTrainedModel

PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm", "lm_head.weight": "output"}


def in_order_of_llama_cpp(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys, head by head: numbers i and i + half of a head are rotated together, and neighbours."""
    rows = np.split(weight, heads)
    half = len(rows[0]) // 2
    return np.concatenate([head[[i + part * half for i in range(half) for part in (0, 1)]] for head in rows])


def write_unpruned(
    path: Path,
    model: LlamaForCausalLM,
    kind: str = "F32",
    architecture: str = "llama",
    fields: Mapping[str, int | float | str] = MappingProxyType({}),
    tensors: Mapping[str, np.ndarray] = MappingProxyType({}),
    **options: Any,
) -> Path:
    """The file at ``path``, with more ``fields`` and ``tensors``; ``options`` are those of the writer."""
    config = model.config
    writer = GGUFWriter(path, architecture, **options)
    for name, value in fields.items():
        if name == "general.alignment":
            writer.add_custom_alignment(value)
            continue
        kinds = {int: GGUFValueType.UINT32, float: GGUFValueType.FLOAT32, str: GGUFValueType.STRING}
        writer.add_key_value(name, value, kinds[type(value)])
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.add_name("tiny")
    writer.add_size_label("1M")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("none")
    writer.add_array("tokenizer.ggml.scores", [0.5, -1.0])
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "▁a"])
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if name in WHOLE:
            new = f"{WHOLE[name]}.weight"
        else:
            _, _, layer, part = name.removesuffix(".weight").split(".", 3)
            new = f"blk.{layer}.{PARTS[part]}.weight"
        values = weight.float().numpy()
        for part, heads in (("attn_q", config.num_attention_heads), ("attn_k", config.num_key_value_heads)):
            values = in_order_of_llama_cpp(values, heads) if part in new else values
        of = GGMLQuantizationType["F32" if values.ndim == 1 else kind]
        encoded = values.astype(np.float16) if of.name == "F16" else quantize(values, of)
        writer.add_tensor(new, encoded, raw_dtype=of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def llama(
    key_value_heads: int, tied: bool = False, kind: type[PreTrainedModel] = LlamaForCausalLM, **fields: Any
) -> Any:
    """A random Llama, or Mistral, of three layers with four query heads."""
    config = kind.config_class(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=key_value_heads,
        head_dim=16,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        **fields,
    )
    torch.manual_seed(0)
    model = kind(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model
