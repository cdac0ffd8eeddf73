"""Small random models with heads removed, and what ONNX Runtime makes of their files."""

from __future__ import annotations

import pytest
import torch
import transformers as t

from methods.heads import HeadMap, remove_heads
from tests.bench.prune.conftest import elsewhere

__all__ = ["elsewhere"]  # a fixture here, too

SIZES = {"vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20}


def _bert() -> t.PreTrainedModel:
    return t.BertForSequenceClassification(t.BertConfig(**SIZES, num_labels=3, max_position_embeddings=32))


def _llama() -> t.PreTrainedModel:
    return t.LlamaForCausalLM(t.LlamaConfig(**SIZES, num_key_value_heads=2, max_position_embeddings=32))


def _gpt2() -> t.PreTrainedModel:
    return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=40, n_embd=24, n_layer=3, n_head=4, n_positions=32))


def _t5() -> t.PreTrainedModel:
    sizes = {"vocab_size": 40, "d_model": 24, "d_kv": 6, "d_ff": 20, "num_layers": 2, "num_heads": 4}
    return t.T5ForConditionalGeneration(t.T5Config(**sizes, relative_attention_num_buckets=6, decoder_start_token_id=0))


def _bart_classifier() -> t.PreTrainedModel:
    sizes = {"vocab_size": 40, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 32}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20}
    return t.BartForSequenceClassification(t.BartConfig(**sizes, **heads, num_labels=3))


def _t5_classifier() -> t.PreTrainedModel:
    return t.T5ForSequenceClassification(_t5().config)


BUILD = {
    "bert": _bert,
    "llama": _llama,
    "gpt2": _gpt2,
    "t5": _t5,
    "bart classifier": _bart_classifier,
    "t5 classifier": _t5_classifier,
}


@pytest.fixture(scope="session")
def onnx():
    """The package; skips where ONNX files cannot be written and run."""
    for name in ("onnxruntime", "onnxscript", "onnx"):
        package = pytest.importorskip(name, reason=f"{name} is not installed; it comes with headbench[onnx]")
    return package


@pytest.fixture(scope="session")
def uneven():
    """Build a small random model of a family whose layers differ in their heads; the first ones of each have none."""

    def build(family: str) -> t.PreTrainedModel:
        torch.manual_seed(0)
        model = BUILD[family]().eval().requires_grad_(False)
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
        heads = HeadMap.of(model)
        mask = torch.rand(len(heads), generator=torch.Generator().manual_seed(2)) < 0.6
        for kind in ("encoder", "decoder", "cross"):
            for index in [index for index, site in enumerate(heads.sites) if site.kind == kind][:1]:
                mask &= heads.site_of_unit != index
        return remove_heads(model, mask, heads)

    return build


@pytest.fixture(scope="session")
def texts():
    """Token ids, (size, length), of texts of different lengths, padded on one side."""

    def build(size: int, length: int, padding: str = "right") -> dict[str, torch.Tensor]:
        ids = torch.randint(3, 40, (size, length), generator=torch.Generator().manual_seed(size))
        mask = torch.ones_like(ids)
        for row in range(size):
            mask[row, length - row % length :] = row % length == 0
        if padding == "left":
            mask = mask.flip(1)
        return {"input_ids": ids * mask, "attention_mask": mask}

    return build
