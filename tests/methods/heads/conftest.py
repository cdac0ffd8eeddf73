"""Small random models of every supported family, and batches for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers as t
from torch import nn

from methods.heads import HeadMap, gated

torch.set_num_threads(1)

SMALL = {"vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20}
LABELS = {"num_labels": 3, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
DECODER = {**SMALL, **LABELS, "max_position_embeddings": 32}
ENCODER = {**DECODER, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
DISENTANGLED = {**ENCODER, "relative_attention": True, "pos_att_type": "c2p|p2c", "type_vocab_size": 0}

XLM = {"vocab_size": 40, "emb_dim": 24, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 32, "n_langs": 1}
XLM |= {"dropout": 0.0, "attention_dropout": 0.0, "pad_index": 0, "num_labels": 3, "pad_token_id": 0}
ROPE_ON_4_OF_6 = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.7}
NO_GPT2_DROPOUT = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
GPT = {"vocab_size": 40, **NO_GPT2_DROPOUT, **LABELS}
Build = Callable[[], t.PreTrainedModel]


def _distilbert() -> t.PreTrainedModel:
    config = t.DistilBertConfig(
        vocab_size=40, dim=24, n_layers=3, n_heads=4, hidden_dim=20, dropout=0.0, attention_dropout=0.0, **LABELS
    )
    return t.DistilBertForSequenceClassification(config)


def _t5(config_class: type, model_class: type, **options: Any) -> Build:
    config = config_class(
        vocab_size=40,
        d_model=24,
        d_kv=6,
        d_ff=20,
        num_layers=3,
        num_heads=4,
        dropout_rate=0.0,
        relative_attention_num_buckets=6,
        relative_attention_max_distance=8,
        feed_forward_proj="gated-gelu",  # without the kinks of ReLU, at which finite differences fail
        decoder_start_token_id=0,
        **options,
    )
    return lambda: model_class(config)


def _switch() -> t.PreTrainedModel:
    """Without experts and ReLU, as neither is smooth."""
    model_class = t.SwitchTransformersForConditionalGeneration
    config = _t5(t.SwitchTransformersConfig, model_class, num_decoder_layers=3)().config
    config.encoder_sparse_step = config.decoder_sparse_step = 0
    config.dense_act_fn = "gelu_new"
    return model_class(config)


def _bart(config_class: type, model_class: type) -> Build:
    config = config_class(
        vocab_size=40,
        d_model=24,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=20,
        decoder_ffn_dim=20,
        max_position_embeddings=32,
        dropout=0.0,
        attention_dropout=0.0,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
    )
    return lambda: model_class(config)


def _bert_to_gpt2() -> t.PreTrainedModel:
    encoder = t.BertModel(t.BertConfig(**ENCODER))
    sizes = {"vocab_size": 40, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 32}
    decoder = t.GPT2LMHeadModel(t.GPT2Config(add_cross_attention=True, **sizes, **NO_GPT2_DROPOUT, **LABELS))
    model = t.EncoderDecoderModel(encoder=encoder, decoder=decoder)
    model.config.pad_token_id = 0
    model.config.decoder_start_token_id = 1
    return model


def _falcon(**options: Any) -> t.PreTrainedModel:
    sizes = {name: size for name, size in SMALL.items() if name != "intermediate_size"}
    config = t.FalconConfig(ffn_hidden_size=20, attention_dropout=0.0, **sizes, **LABELS, **options)
    return t.FalconForSequenceClassification(config)


def _vit() -> t.PreTrainedModel:
    sizes = {name: size for name, size in SMALL.items() if name != "vocab_size"}
    config = t.ViTConfig(**sizes, num_labels=3, image_size=8, patch_size=4, hidden_dropout_prob=0.0)
    return t.ViTForImageClassification(config)


GQA = {**DECODER, "num_key_value_heads": 2, "head_dim": 6}
MIXED = {  # the second layer keeps a state instead of attending
    "layer_types": ["full_attention", "linear_attention", "full_attention"],
    **{f"linear_{name}": size for name, size in (("num_key_heads", 2), ("num_value_heads", 4), ("conv_kernel_dim", 2))},
    **{"linear_key_head_dim": 4, "linear_value_head_dim": 4},
}
LATENT = {
    **{"q_lora_rank": 10, "kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5},
    "first_k_dense_replace": 3,  # no experts
}
ENCODER_DECODERS = {"umt5", "switch", "longt5", "bart", "marian", "t5", "mt5", "bert-to-gpt2"}
GROUPED = {"falcon-grouped", "phi", "phi3", "llama-gqa", "mistral", "qwen2", "qwen3", "gemma2"}
GROUPED |= {"olmo2", "mimo-v2-flash", "qwen3-next"}
# Some of their layers compute in float32 whatever the model's dtype.
FLOAT32_INSIDE = {
    *("deberta", "modernbert", "modernbert-decoder", "phi3", "llama", "llama-gqa", "mistral", "qwen2", "qwen3"),
    *("gemma2", "t5", "mt5"),
    *("longformer", "gptj", "codegen", "bloom", "xlm", "flaubert", "umt5", "switch", "longt5"),
    *("olmo2", "mimo-v2-flash", "qwen3-next", "deepseek-v3"),
}
DEBERTA = {"deberta", "deberta-v2", "deberta-v3"}
# Most have no other attention, as have Gemma 2's soft cap and MiMo's sinks.
EAGER_ONLY = {
    *("longformer", "roformer", "big-bird", "xlm", "flaubert", "mpnet", "gemma2", "gptj", "codegen", "bloom", "switch"),
    *("mimo-v2-flash", "longt5", *DEBERTA),
}

# Families whose attention modules are those of another family here, but for their names.
LIKE_OTHERS = {
    *("roberta", "xlm-roberta", "camembert", "electra", "big-bird", "flaubert"),
    *("marian", "mt5", "switch", "mistral", "qwen2", "gpt-bigcode-mha"),
}
# One family of each kind of attention: shared projections, tied layers, grouped keys, latent attention, cross-attention
TYPICAL = {
    *("bert", "albert", "gpt2", "llama-gqa", "qwen3-next", "deepseek-v3", "deberta-v2", "falcon-grouped", "longformer"),
    *("t5", "modernbert"),
}
FAMILIES: dict[str, Build] = {
    "bert": lambda: t.BertForSequenceClassification(t.BertConfig(**ENCODER)),
    "roberta": lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**ENCODER)),
    "xlm-roberta": lambda: t.XLMRobertaForSequenceClassification(t.XLMRobertaConfig(**ENCODER)),
    "camembert": lambda: t.CamembertForSequenceClassification(t.CamembertConfig(**ENCODER)),
    "electra": lambda: t.ElectraForSequenceClassification(t.ElectraConfig(embedding_size=8, **ENCODER)),
    "albert": lambda: t.AlbertForSequenceClassification(
        t.AlbertConfig(embedding_size=8, classifier_dropout_prob=0.0, **ENCODER)
    ),
    "deberta": lambda: t.DebertaForSequenceClassification(t.DebertaConfig(**DISENTANGLED)),
    "deberta-v2": lambda: t.DebertaV2ForSequenceClassification(t.DebertaV2Config(**DISENTANGLED)),
    "deberta-v3": lambda: t.DebertaV2ForSequenceClassification(
        t.DebertaV2Config(share_att_key=True, position_buckets=4, norm_rel_ebd="layer_norm", **DISENTANGLED)
    ),
    "roformer": lambda: t.RoFormerForSequenceClassification(t.RoFormerConfig(rotary_value=True, **ENCODER)),
    "big-bird": lambda: t.BigBirdForSequenceClassification(t.BigBirdConfig(attention_type="original_full", **ENCODER)),
    "xlm": lambda: t.XLMForSequenceClassification(t.XLMConfig(**XLM)),
    "flaubert": lambda: t.FlaubertForSequenceClassification(t.FlaubertConfig(**XLM)),
    "longformer": lambda: t.LongformerForSequenceClassification(
        t.LongformerConfig(attention_window=[4, 8, 4], **ENCODER)
    ),
    "distilbert": _distilbert,
    "mpnet": lambda: t.MPNetForSequenceClassification(t.MPNetConfig(**ENCODER)),
    "modernbert": lambda: t.ModernBertForSequenceClassification(
        t.ModernBertConfig(local_attention=4, attention_bias=True, cls_token_id=None, sep_token_id=None, **DECODER)
    ),
    "modernbert-decoder": lambda: t.ModernBertDecoderForSequenceClassification(
        t.ModernBertDecoderConfig(local_attention=4, attention_bias=True, **DECODER | {"bos_token_id": 1})
    ),
    "vit": _vit,
    "gpt2": lambda: t.GPT2ForSequenceClassification(
        t.GPT2Config(vocab_size=40, n_embd=24, n_layer=3, n_head=4, n_positions=32, **NO_GPT2_DROPOUT, **LABELS)
    ),
    "gpt-neox": lambda: t.GPTNeoXForSequenceClassification(t.GPTNeoXConfig(**DECODER)),
    "gptj": lambda: t.GPTJForSequenceClassification(
        t.GPTJConfig(rotary_dim=4, n_embd=24, n_layer=3, n_head=4, n_inner=20, n_positions=32, **GPT)
    ),
    "codegen": lambda: t.CodeGenForCausalLM(
        t.CodeGenConfig(rotary_dim=2, n_embd=32, n_layer=3, n_head=8, n_inner=20, n_positions=32, n_ctx=32, **GPT)
    ),
    "gpt-bigcode": lambda: t.GPTBigCodeForSequenceClassification(
        t.GPTBigCodeConfig(n_embd=24, n_layer=3, n_head=4, n_inner=20, n_positions=32, **GPT)
    ),
    "gpt-bigcode-mha": lambda: t.GPTBigCodeForSequenceClassification(
        t.GPTBigCodeConfig(n_embd=24, n_layer=3, n_head=4, n_inner=20, n_positions=32, multi_query=False, **GPT)
    ),
    "falcon": lambda: _falcon(),
    "falcon-grouped": lambda: _falcon(new_decoder_architecture=True, num_kv_heads=2),
    "falcon-alibi": lambda: _falcon(alibi=True, multi_query=False, parallel_attn=False, bias=True),
    "bloom": lambda: t.BloomForSequenceClassification(
        t.BloomConfig(vocab_size=40, hidden_size=24, n_layer=3, n_head=4, hidden_dropout=0.0, **LABELS)
    ),
    "opt": lambda: t.OPTForSequenceClassification(
        t.OPTConfig(ffn_dim=20, activation_function="gelu", word_embed_proj_dim=24, dropout=0.0, **DECODER)
    ),
    "phi": lambda: t.PhiForSequenceClassification(
        t.PhiConfig(num_key_value_heads=2, rope_parameters=ROPE_ON_4_OF_6, **DECODER)
    ),
    "phi3": lambda: t.Phi3ForSequenceClassification(t.Phi3Config(num_key_value_heads=2, **DECODER)),
    "llama": lambda: t.LlamaForSequenceClassification(t.LlamaConfig(**DECODER)),
    "llama-gqa": lambda: t.LlamaForSequenceClassification(t.LlamaConfig(num_key_value_heads=2, **DECODER)),
    "mistral": lambda: t.MistralForSequenceClassification(t.MistralConfig(sliding_window=5, **GQA)),
    "qwen2": lambda: t.Qwen2ForSequenceClassification(t.Qwen2Config(num_key_value_heads=2, **DECODER)),
    "qwen3": lambda: t.Qwen3ForSequenceClassification(t.Qwen3Config(**GQA)),
    "gemma2": lambda: t.Gemma2ForSequenceClassification(t.Gemma2Config(sliding_window=5, **GQA)),
    "olmo2": lambda: t.Olmo2ForSequenceClassification(t.Olmo2Config(num_key_value_heads=2, **DECODER)),
    "mimo-v2-flash": lambda: t.MiMoV2FlashForCausalLM(
        t.MiMoV2FlashConfig(
            sliding_window=5,
            v_head_dim=5,
            layer_types=["full_attention", "sliding_attention", "full_attention"],
            mlp_layer_types=["dense"] * 3,
            **{**GQA, "num_key_value_heads": 1},  # twice as many in the second layer
        )
    ),
    "qwen3-next": lambda: t.Qwen3NextForSequenceClassification(
        t.Qwen3NextConfig(mlp_only_layers=[0, 1, 2], **MIXED, **GQA)
    ),
    "deepseek-v3": lambda: t.DeepseekV3ForSequenceClassification(
        t.DeepseekV3Config(num_key_value_heads=4, **LATENT, **DECODER)
    ),
    "bart": _bart(t.BartConfig, t.BartForConditionalGeneration),
    "marian": _bart(t.MarianConfig, t.MarianMTModel),
    "t5": _t5(t.T5Config, t.T5ForConditionalGeneration),
    "bert-to-gpt2": _bert_to_gpt2,
    "mt5": _t5(t.MT5Config, t.MT5ForConditionalGeneration),
    "umt5": _t5(t.UMT5Config, t.UMT5ForConditionalGeneration),
    "switch": _switch,
    "longt5": _t5(t.LongT5Config, t.LongT5ForConditionalGeneration, local_radius=2),
}


class Zoo:
    """Builds the small models and what they are tried with."""

    def model(self, family: str, *, attention: str = "sdpa", dtype: torch.dtype = torch.float32) -> t.PreTrainedModel:
        """A random model in evaluation mode whose biases are not zero and whose attention is far from uniform."""
        torch.manual_seed(0)
        model = FAMILIES[family]()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith(("bias", "sinks")) or parameter.dim() == 2:
                    parameter.normal_(std=0.2)
        self.set_attention(model, "eager" if family in EAGER_ONLY else attention)
        return model.to(dtype).eval()

    def set_attention(self, model: t.PreTrainedModel, attention: str) -> None:
        model.set_attn_implementation(attention)
        if model.config._attn_implementation != attention:  # Falcon refuses, but reads it at each pass
            model.config._attn_implementation_internal = attention

    def batch(self, family: str, padding: str = "right", length: int = 7) -> dict[str, torch.Tensor]:
        """Four sentences of 3 to ``length`` tokens, padded on one side, or four images; and four unpadded targets."""
        if family == "vit":
            return {"pixel_values": torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))}
        ids = torch.randint(3, 40, (4, length), generator=torch.Generator().manual_seed(1))
        mask = torch.ones_like(ids)
        for row, tokens in enumerate((length, 5, 3, 6)):
            mask[row, tokens:] = 0
        if padding == "left":
            mask = mask.flip(1)
        inputs = {"input_ids": ids * mask, "attention_mask": mask}
        if family in ENCODER_DECODERS:
            inputs["decoder_input_ids"] = torch.randint(3, 40, (4, 5), generator=torch.Generator().manual_seed(3))
        return inputs

    def families(self) -> list[str]:
        return list(FAMILIES)

    def computes_in_float32(self, family: str) -> bool:
        return family in FLOAT32_INSIDE

    def has_maps(self, family: str) -> bool:
        """Whether each token attends to all, so that there are attention maps to observe."""
        return family not in ("longformer", "longt5")

    def masks(self, heads: HeadMap) -> dict[str, torch.Tensor]:
        """Masks that every family must bear."""
        random = torch.rand(len(heads), generator=torch.Generator().manual_seed(2)) < 0.5
        return {
            "all kept": heads.full_mask(),
            "random": random,
            "no head in the first site": random & (heads.site_of_unit != 0),
            "one head in all": torch.arange(len(heads)) == len(heads) - 1,
            "no head at all": torch.zeros(len(heads), dtype=torch.bool),
        }

    @contextmanager
    def zeroed(self, model: t.PreTrainedModel, mask: torch.Tensor, heads: HeadMap) -> Iterator[None]:
        """Inside, the attention function itself gives zeros for the heads that ``mask`` does not keep."""
        module_of = sys.modules[type(model).__module__]
        eager, kept = module_of.eager_attention_forward, heads.kept(mask)
        sites = {model.get_submodule(site.name): site for site in heads.sites}
        calls = []

        def attend(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
            output, rows = eager(module, *args, **kwargs)  # output (B, T, H, d_h)
            site = sites[module]
            calls.append(site.name)
            keep = torch.isin(torch.arange(site.num_heads), torch.tensor(kept[site.name], dtype=torch.long))
            return output * keep[:, None], rows

        former = model.config._attn_implementation
        model.set_attn_implementation("eager")
        module_of.eager_attention_forward = attend
        try:
            yield
        finally:
            module_of.eager_attention_forward = eager
            model.set_attn_implementation(former)
        assert set(calls) == {site.name for site in heads.sites}

    @torch.no_grad()
    def assert_ones_change_nothing(
        self, model: t.PreTrainedModel, heads: HeadMap, batch: dict[str, torch.Tensor]
    ) -> None:
        """Gates of 1 must leave each bit as it is, also one for each example, which are multiplied."""
        whole = model(**batch)[0]
        for ones in (torch.ones(len(heads)), torch.ones(len(heads), len(whole))):
            with gated(model, ones, heads):
                assert torch.equal(model(**batch)[0], whole)

    def assert_close(
        self, actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype = torch.float32, what: str = ""
    ) -> None:
        """Equal up to rounding, measured on the scale of ``expected``."""
        assert actual.shape == expected.shape, what
        tolerance = 1e-5 if dtype == torch.float32 else 8 * torch.finfo(dtype).eps
        scale = expected.abs().max().item() if expected.numel() else 1.0
        error = (actual - expected).abs().max().item() if expected.numel() else 0.0
        assert error <= tolerance * max(scale, 1e-2), f"{what}: off by {error} on a scale of {scale}"


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    return Zoo()


UNLIKE_OTHERS = FAMILIES.keys() - LIKE_OTHERS


def each(families: Iterable[str], fast: Iterable[str] = UNLIKE_OTHERS) -> list[Any]:
    """Parameters of a test of ``families``: those not in ``fast`` are slow tests.

    By default those are slow whose attention is like that of another.
    """
    return [family if family in fast else pytest.param(family, marks=pytest.mark.slow) for family in families]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a family runs for all of them; one that takes a unit as well, for each that has such units.

    One that is marked ``typical`` is fast for one family of each kind of attention, and slow for the others.
    """
    fast = TYPICAL if metafunc.definition.get_closest_marker("typical") else UNLIKE_OTHERS
    if {"family", "unit"} <= set(metafunc.fixturenames):
        pairs = [(family, "group") for family in FAMILIES] + [
            (family, "query") for family in FAMILIES if family in GROUPED
        ]
        marks = {family: [] if family in fast else [pytest.mark.slow] for family in FAMILIES}
        metafunc.parametrize(("family", "unit"), [pytest.param(*pair, marks=marks[pair[0]]) for pair in pairs])
    elif "family" in metafunc.fixturenames:
        metafunc.parametrize("family", each(FAMILIES, fast))
