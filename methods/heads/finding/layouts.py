"""Where each family of attention modules has its projections, and what else pruning must know about it.

One entry per layout, not per model: models are recognised by the projections of their attention modules, so one entry
covers every model with the same layout. Entries are tried in order.
"""

from __future__ import annotations

from typing import Any

from methods.heads.finding.layout import Layout

# Arguments of attention to contents and to relative positions apart (DeBERTa).
DISENTANGLED = ("query_states", "relative_pos", "rel_embeddings")

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
    # T5, mT5, Switch, MPNet, the decoder of LongT5
    Layout(
        *("q", "k", "v", "o"),
        position_bias=True,
        classes=(
            *("T5Attention", "MT5Attention", "SwitchTransformersAttention", "MPNetSelfAttention"),
            *("UdopAttention", "Pop2PianoAttention", "LongT5Attention"),
        ),
    ),
    # The encoder of LongT5, which attends to the tokens around each
    Layout(
        *("q", "k", "v", "o"),
        block_bias=("relative_attention_bias",),
        windows=True,
        needs_heads=True,
        classes=("LongT5LocalAttention",),
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
    # Japanese GPT-NeoX, whose attention hands the bias of its output on to the block; never empty
    Layout(
        *("query_key_value", "query_key_value", "query_key_value", "dense"),
        order="groups",
        whole=("dense_bias",),
        causal=True,
        classes=("GPTNeoXJapaneseAttention",),
    ),
    # Falcon, with and without grouped queries
    Layout(
        *("query_key_value", "query_key_value", "query_key_value", "dense"),
        order="groups",
        by_head=("alibi", "attention_mask"),
        in_mask=("alibi",),
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
