"""Where each family of attention modules has its projections, and what else pruning must know about it.

One entry per layout, not per model: models are recognised by the projections of their attention modules, so one entry
covers every model with the same layout. Entries are tried in order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import nn

from methods.heads.mechanisms.shared_keys import source_of

ROLES = ("query", "key", "value")

# Attributes in which attention modules store the width of one head.
HEAD_DIM = ("attention_head_size", "head_dim", "head_size", "key_value_proj_dim")

# Arguments of attention to contents and to relative positions apart (DeBERTa).
DISENTANGLED = ("query_states", "relative_pos", "rel_embeddings")

# Names in a path that show that a site attends to another sequence.
CROSS_ATTENTION = ("crossattention", "cross_attention", "cross_attn", "encoder_attn", "EncDecAttention")


class UnsupportedArchitecture(ValueError):
    """The model has attention that cannot be pruned exactly, as far as is known."""


@dataclass(frozen=True)
class Layout:
    """Names of an attention module's projections, relative to the module; a leading ``../`` starts at its parent.

    The query projection is a child of the module itself.

    Roles with the same name share one fused projection. ``order`` says how its rows are ordered: by "roles", the
    queries of all heads, then all keys, then all values; by "groups", the queries of the first key/value head, its key
    and its value, then those of the next; in "quarters", as in ``mechanisms.quarters``; or keys and values are the
    "same" rows. Names cannot tell these apart, so a fused layout applies only to the ``classes`` that it was checked
    for.
    """

    query: str
    key: str
    value: str
    output: str
    order: str = "roles"  # of the rows of a fused projection
    classes: tuple[str, ...] = ()  # empty: any class
    follow: tuple[str, ...] = ()  # more linear layers, where there are any, with outputs for every query head
    biases: tuple[str, ...] = ()  # parameters of the module itself, added to the queries, keys or values of all heads
    tables: tuple[str, ...] = ()  # embeddings, where there are any, with one entry for every query head
    arguments: tuple[str, ...] = ()  # arguments of its forward, beside the usual ones, without an entry per head
    by_head: tuple[str, ...] = ()  # arguments with an entry for each query head of the unpruned model
    numbers: tuple[str, ...] = ()  # integers that its forward reads and that do not depend on the number of heads
    totals: tuple[str, ...] = ()  # attributes with the width of all query heads, beside those of ``geometry``
    off: tuple[str, ...] = ()  # flags of the module that must not be set
    causal: bool = False  # attends to no later position, though the module has no attribute that says so
    input_width: bool = False  # shapes its contexts by the width of its input
    time_first: bool = False  # its projections run on (T, B, d)
    scales_in_place: bool = False  # changes what its query projection gives in place
    windows: bool = False  # has no attention maps (B, H, T, S), as tokens attend to their neighbours only
    position_bias: bool = False  # takes a bias (1 or B, heads, T, S) computed for all heads of the unpruned model
    reads_config: bool = False  # reads its number of query heads from the configuration shared by all layers
    needs_heads: bool = False  # its forward fails when no head is left
    widths: tuple[str, ...] = ()  # attributes with the outputs per head of query, key and value; empty: HEAD_DIM
    output_gate: bool = False  # each head of the query projection is followed by a gate of its context, as wide
    per_head: tuple[str, ...] = ()  # its parameters that, where it has them, have one entry per query head
    before: tuple[str, ...] = ()  # modules that compute what all heads share from the input
    after: str = ""  # module, where there is one, applied to the output projection's result (only if needs_heads)

    def projections(self, path: str, modules: Mapping[str, nn.Module]) -> dict[str, str]:
        """Paths of the projections of queries, keys and values and of the output, for the module at ``path``."""
        source = source_of(path, modules)
        own = {"query": part(path, self.query), "output": part(path, self.output)}
        return own | {"key": part(source, self.key), "value": part(source, self.value)}

    def paths(self) -> tuple[str, str, str, str]:
        """Names of the query, key, value and output projections."""
        return self.query, self.key, self.value, self.output

    @property
    def fused(self) -> bool:
        """Whether one module computes several of query, key and value."""
        return len({self.query, self.key, self.value}) < 3


OUTPUT_GATES = ("Qwen3NextAttention", "Qwen3_5Attention", "Qwen3_5MoeAttention")

# These multiply each head's context by a projection of the input, with an entry for each of its own or one for all.
GATED_CONTEXTS = (
    *("AfmoeAttention", "Lfm3Attention", "LagunaAttention", "Step3p7Attention"),
    *("MuseGlimmerTextAttention", "MuseSparkTextAttention"),
)

GPT2 = ("GPT2Attention", "DecisionTransformerGPT2Attention", "ImageGPTAttention")

# DeepSeek's latent attention: the keys and values of all heads are computed from one latent state, which is what a
# cache holds. Each head's rows of the one projection are its keys, then its values.
LATENT: Any = {
    "key": "kv_b_proj",
    "value": "kv_b_proj",
    "output": "o_proj",
    "order": "groups",
    "widths": ("qk_head_dim", "qk_nope_head_dim", "v_head_dim"),
    "before": ("q_a_proj", "q_a_layernorm", "kv_a_proj_with_mqa", "kv_a_layernorm", "indexer"),
    "needs_heads": True,
    "classes": (
        *("DeepseekV2Attention", "DeepseekV3Attention", "Glm4MoeLiteAttention", "YoutuAttention", "MiniCPM3Attention"),
        *("KimiLinearAttention", "Mistral4Attention", "AXK1Attention", "LongcatFlashMLA"),
        "DeepseekV32Attention",
    ),
}

# Longformer's attention to the tokens around each, and of some tokens to all.
WINDOWS: Any = {
    "follow": ("query_global", "key_global", "value_global"),
    "arguments": ("is_index_masked", "is_index_global_attn", "is_global_attn"),
    "numbers": ("one_sided_attn_window_size",),
    "totals": ("embed_dim",),
    "input_width": True,
    "time_first": True,
    "scales_in_place": True,
    "windows": True,
    "needs_heads": True,
}

LAYOUTS = (
    # DeepSeek V2 and V3; their small models have no latent state for queries
    Layout("q_b_proj", **LATENT),
    Layout("q_proj", **LATENT),
    # Longformer, and the encoder of LED
    Layout(*("query", "key", "value", "../output.dense"), **WINDOWS, classes=("LongformerSelfAttention",)),
    Layout(*("query", "key", "value", "../output"), **WINDOWS, classes=("LEDEncoderSelfAttention",)),
    # LayoutLMv3
    Layout(
        *("query", "key", "value", "../output.dense"),
        by_head=("rel_pos", "rel_2d_pos"),
        needs_heads=True,
        classes=("LayoutLMv3SelfAttention",),
    ),
    # MobileBERT
    Layout(
        *("query", "key", "value", "../output.dense"),
        arguments=("query_tensor", "key_tensor", "value_tensor"),
        classes=("MobileBertSelfAttention",),
    ),
    # CANINE
    Layout(
        *("query", "key", "value", "../output.dense"),
        arguments=("from_tensor", "to_tensor"),
        needs_heads=True,
        classes=("CanineSelfAttention",),
    ),
    # BERT, RoBERTa, XLM-RoBERTa, CamemBERT, ELECTRA, RoFormer, BigBird with full attention
    Layout("query", "key", "value", "../output.dense", arguments=("sinusoidal_pos",)),
    # DeBERTa
    Layout(
        *("in_proj", "in_proj", "in_proj", "../output.dense"),
        order="groups",
        follow=("pos_proj", "pos_q_proj"),
        biases=("q_bias", "v_bias"),
        arguments=DISENTANGLED,
        needs_heads=True,
        classes=("DisentangledSelfAttention",),
    ),
    # DeBERTa-v2, DeBERTa-v3
    Layout(
        *("query_proj", "key_proj", "value_proj", "../output.dense"),
        follow=("pos_key_proj", "pos_query_proj"),
        arguments=DISENTANGLED,
        numbers=("pos_ebd_size",),
        needs_heads=True,
    ),
    # ALBERT
    Layout("query", "key", "value", "dense"),
    # XLM, FlauBERT
    Layout(
        *("q_lin", "k_lin", "v_lin", "out_lin"),
        arguments=("input", "kv", "cache"),
        numbers=("dim",),
        needs_heads=True,
        classes=("MultiHeadAttention",),
    ),
    # DistilBERT
    Layout("q_lin", "k_lin", "v_lin", "out_lin"),
    # Qwen3-Next, Qwen3.5
    Layout("q_proj", "k_proj", "v_proj", "o_proj", output_gate=True, classes=OUTPUT_GATES),
    # AFMoE, LFM3, Laguna, Step 3.5
    Layout("q_proj", "k_proj", "v_proj", "o_proj", follow=("gate_proj", "g_proj"), classes=GATED_CONTEXTS),
    # Llama, Mistral, Qwen2, Qwen3, Gemma 2, ViT, OLMo 2, gpt-oss
    Layout("q_proj", "k_proj", "v_proj", "o_proj", per_head=("sinks",)),
    # ModernBERT decoder
    Layout("q_proj", "k_proj", "v_proj", "Wo"),
    # Gemma 4 where keys serve as values
    Layout("q_proj", "k_proj", "k_proj", "o_proj", order="same", classes=("Gemma4TextAttention",)),
    # Phi
    Layout("q_proj", "k_proj", "v_proj", "dense"),
    # XGLM
    Layout(
        *("q_proj", "k_proj", "v_proj", "out_proj"),
        totals=("embed_dim",),
        causal=True,
        needs_heads=True,
        classes=("XGLMAttention",),
    ),
    # TrOCR, and the decoder of LED, which is never empty
    Layout(
        *("q_proj", "k_proj", "v_proj", "out_proj"),
        totals=("embed_dim",),
        input_width=True,
        needs_heads=True,
        classes=("TrOCRAttention",),
    ),
    Layout(
        *("q_proj", "k_proj", "v_proj", "out_proj"),
        totals=("embed_dim",),
        input_width=True,
        classes=("LEDDecoderAttention",),
    ),
    # BART, Marian, OPT, GPT-Neo, GPT-J
    Layout("q_proj", "k_proj", "v_proj", "out_proj", needs_heads=True, after="resid_dropout"),
    # T5, mT5, Switch, MPNet
    Layout(
        *("q", "k", "v", "o"),
        position_bias=True,
        classes=(
            *("T5Attention", "MT5Attention", "SwitchTransformersAttention", "MPNetSelfAttention"),
            *("UdopAttention", "Pop2PianoAttention"),
        ),
    ),
    # UMT5, where every layer has a bias of its own
    Layout(
        *("q", "k", "v", "o"),
        tables=("relative_attention_bias",),
        needs_heads=True,
        classes=("UMT5Attention",),
    ),
    # Phi-3
    Layout("qkv_proj", "qkv_proj", "qkv_proj", "o_proj", classes=("Phi3Attention",), reads_config=True),
    # ModernBERT
    Layout("Wqkv", "Wqkv", "Wqkv", "Wo", classes=("ModernBertAttention",)),
    # GPT-NeoX
    Layout(
        *("query_key_value", "query_key_value", "query_key_value", "dense"),
        order="groups",
        classes=("GPTNeoXAttention",),
    ),
    # Falcon, with and without grouped queries
    Layout(
        *("query_key_value", "query_key_value", "query_key_value", "dense"),
        order="groups",
        by_head=("alibi", "attention_mask"),
        needs_heads=True,
        classes=("FalconAttention",),
    ),
    # Bloom
    Layout(
        *("query_key_value", "query_key_value", "query_key_value", "dense"),
        order="groups",
        arguments=("residual",),
        by_head=("alibi",),
        numbers=("hidden_size", "pretraining_tp"),
        off=("slow_but_exact",),
        causal=True,
        needs_heads=True,
        classes=("BloomAttention",),
    ),
    # Persimmon
    Layout(
        *("query_key_value", "query_key_value", "query_key_value", "dense"),
        order="groups",
        numbers=("hidden_size",),
        needs_heads=True,
        classes=("PersimmonAttention",),
    ),
    # MPT
    Layout(
        *("Wqkv", "Wqkv", "Wqkv", "out_proj"),
        by_head=("position_bias",),
        numbers=("hidden_size", "max_seq_length"),
        causal=True,
        needs_heads=True,
        classes=("MptAttention",),
    ),
    # CodeGen
    Layout(
        *("qkv_proj", "qkv_proj", "qkv_proj", "out_proj"),
        order="quarters",
        causal=True,
        needs_heads=True,
        after="resid_dropout",
        classes=("CodeGenAttention",),
    ),
    # GPT-BigCode, with one key/value head or as many as queries
    Layout(
        *("c_attn", "c_attn", "c_attn", "c_proj"),
        order="groups",
        totals=("embed_dim",),
        needs_heads=True,
        after="resid_dropout",
        classes=("GPTBigCodeAttention",),
    ),
    # GPT-2: cross attention, then self attention
    Layout("q_attn", "c_attn", "c_attn", "c_proj", needs_heads=True, after="resid_dropout", classes=GPT2),
    Layout("c_attn", "c_attn", "c_attn", "c_proj", needs_heads=True, after="resid_dropout", classes=GPT2),
)


def geometry(num_heads: int, num_key_value_heads: int, head_dim: int, totals: tuple[str, ...] = ()) -> dict[str, int]:
    """Attributes in which attention modules store their geometry, with the values they must have; a module has some.

    totals: more of them that store the width of all query heads.
    """
    # With no head left it is 1 and not 0, as attention kernels divide by it.
    queries_per_group = num_heads // num_key_value_heads if num_key_value_heads else 1
    return {
        **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads"), num_heads),
        **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "kv_heads"), num_key_value_heads),
        "num_key_value_groups": queries_per_group,
        "kv_dim": num_key_value_heads * head_dim,
        **dict.fromkeys(("all_head_size", "inner_dim", "split_size", *totals), num_heads * head_dim),
    }


def is_linear_attention(module: nn.Module) -> bool:
    """Whether the heads of ``module`` keep a state instead of attending to tokens: these are left as they are.

    transformers hands such a module its state as ``cache_params``, except for MiniMax's lightning attention.
    """
    return "cache_params" in arguments_of(type(module).forward) or "LightningAttention" in type(module).__name__


@cache
def arguments_of(forward: Callable[..., Any]) -> frozenset[str]:
    """Names of the arguments of a class's forward, ``self`` included."""
    return frozenset(inspect.signature(forward).parameters)


def part(path: str, name: str) -> str:
    """Dotted path of the module that a layout calls ``name``, for the attention module at ``path``."""
    while name.startswith("../"):
        path, name = path.rpartition(".")[0], name.removeprefix("../")
    return f"{path}.{name}" if path else name


def match_layout(path: str, modules: dict[str, nn.Module]) -> Layout | None:
    """The layout of the module at ``path``; None if it is no attention module, or one of linear attention.

    Raises UnsupportedArchitecture if the names match a layout that holds only for classes other than this one.
    """
    children = modules[path]._modules  # most modules have no child with the name of a query, which is quickly seen
    fitting = [
        layout
        for layout in LAYOUTS
        if layout.query in children and all(each in modules for each in layout.projections(path, modules).values())
    ]
    if not fitting or is_linear_attention(modules[path]):
        return None
    name = type(modules[path]).__name__
    for layout in fitting:
        if not layout.classes or name in layout.classes:
            return layout
    raise UnsupportedArchitecture(
        f"{name} at {path} has the projections of {', '.join(fitting[0].classes)}, but was not checked to work the "
        "same way; if it does, add its name to methods/heads/finding/layouts.py"
    )
