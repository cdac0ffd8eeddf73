"""Small random models of every supported family, and batches for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import transformers as t

from methods.heads import HeadMap

torch.set_num_threads(1)

SMALL = {"vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20}
LABELS = {"num_labels": 3, "pad_token_id": 0}
DECODER = {**SMALL, **LABELS, "max_position_embeddings": 32}
ENCODER = {**DECODER, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def _distilbert() -> t.PreTrainedModel:
    config = t.DistilBertConfig(
        vocab_size=40, dim=24, n_layers=3, n_heads=4, hidden_dim=20, dropout=0.0, attention_dropout=0.0, **LABELS
    )
    return t.DistilBertForSequenceClassification(config)


FAMILIES: dict[str, Callable[[], t.PreTrainedModel]] = {
    "bert": lambda: t.BertForSequenceClassification(t.BertConfig(**ENCODER)),
    "roberta": lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**ENCODER)),
    "xlm-roberta": lambda: t.XLMRobertaForSequenceClassification(t.XLMRobertaConfig(**ENCODER)),
    "albert": lambda: t.AlbertForSequenceClassification(
        t.AlbertConfig(embedding_size=8, classifier_dropout_prob=0.0, **ENCODER)
    ),
    "distilbert": _distilbert,
    "llama": lambda: t.LlamaForSequenceClassification(t.LlamaConfig(**DECODER)),
    "llama-gqa": lambda: t.LlamaForSequenceClassification(t.LlamaConfig(num_key_value_heads=2, **DECODER)),
    "mistral": lambda: t.MistralForSequenceClassification(
        t.MistralConfig(num_key_value_heads=2, sliding_window=5, **DECODER)
    ),
    "qwen2": lambda: t.Qwen2ForSequenceClassification(t.Qwen2Config(num_key_value_heads=2, **DECODER)),
}


class Zoo:
    """Builds the small models and what they are tried with."""

    def model(self, family: str, *, attention: str = "sdpa", dtype: torch.dtype = torch.float32) -> t.PreTrainedModel:
        """A random model in evaluation mode whose biases are not zero and whose attention is far from uniform."""
        torch.manual_seed(0)
        model = FAMILIES[family]()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("bias"):
                    parameter.normal_(std=0.2)
                elif parameter.dim() == 2:
                    parameter.normal_(std=0.3)
        model.set_attn_implementation(attention)
        return model.to(dtype).eval()

    def batch(self, padding: str = "right") -> dict[str, torch.Tensor]:
        """Four sentences of 3 to 7 tokens, padded on one side."""
        ids = torch.randint(3, 40, (4, 7), generator=torch.Generator().manual_seed(1))
        mask = torch.ones_like(ids)
        for row, length in enumerate((7, 5, 3, 6)):
            mask[row, length:] = 0
        if padding == "left":
            mask = mask.flip(1)
        return {"input_ids": ids * mask, "attention_mask": mask}

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


@pytest.fixture(scope="session", params=list(FAMILIES))
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session", params=["group", "query"])
def unit(request: pytest.FixtureRequest) -> str:
    return request.param
