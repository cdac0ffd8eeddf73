"""Tiny random models, batches of random texts, and views of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import torch
import torch.nn.functional as F
import transformers as t
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from methods import View
from methods.heads import HeadMap

SIZES = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12}
LABELS = {"num_labels": 3, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
SHARED = {**SIZES, **LABELS, "max_position_embeddings": 64}

# Dropout stays as configured, so that leaving evaluation mode changes results.
MODELS = {
    "bert": (t.BertConfig, t.BertForSequenceClassification, {}),
    "albert": (t.AlbertConfig, t.AlbertForSequenceClassification, {"embedding_size": 8}),
    "llama": (t.LlamaConfig, t.LlamaForSequenceClassification, {"num_key_value_heads": 2}),
}
# In llama a unit is a group of query heads, in llama-query one query head of every group.
ARCHITECTURES = ("bert", "albert", "llama", "llama-query")


def norm_in_float64(model: nn.Module) -> None:
    """Replace Llama's own norm, which computes in float32 for any dtype: too coarse for finite differences."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, LlamaRMSNorm):
                setattr(module, name, nn.RMSNorm(len(child.weight), child.variance_epsilon))


@dataclass(frozen=True)
class Batch:
    """Texts as tensors, (B, T) each, and their labels, (B,)."""

    inputs: dict[str, Tensor]
    labels: Tensor


@dataclass(frozen=True)
class TinyTraining:
    """A training split that repeats a few batches, with AdamW at a learning rate that falls to zero."""

    examples: Sequence[Batch]
    steps: int = 2
    epoch_steps: int = 3
    clip: float = 1.0
    learning_rate: float = 0.01
    initial: Mapping[str, Tensor] | None = None

    def batches(self) -> Iterator[Batch]:
        return cycle(self.examples)

    def in_batches_of(self, size: int) -> TinyTraining:
        parts = [
            Batch({name: rows[start:][:size] for name, rows in batch.inputs.items()}, batch.labels[start:][:size])
            for batch in self.examples
            for start in range(0, len(batch.labels), size)
        ]
        return replace(self, examples=parts, steps=self.steps * len(parts) // len(self.examples))

    def optimizer(self, model: nn.Module) -> tuple[AdamW, LambdaLR]:
        optimizer = AdamW(model.parameters(), lr=self.learning_rate)
        return optimizer, LambdaLR(optimizer, lambda step: 1 - step / self.steps)

    def with_steps(self, steps: int) -> TinyTraining:
        return replace(self, steps=steps)

    def initial_weights(self) -> Mapping[str, Tensor]:
        if self.initial is None:
            raise ValueError("the model is taken as it is")
        return self.initial


class Tiny:
    """Builds random models with 4 heads of width 4 per layer, texts for them, and views."""

    def model(
        self, architecture: str, seed: int = 0, dtype: torch.dtype = torch.float32, layers: int = 2
    ) -> t.PreTrainedModel:
        """A random model in evaluation mode. Its weights are large, so that attention is far from uniform."""
        config_class, model_class, own = MODELS[architecture.partition("-")[0]]
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # not that of every kind of device, as torch.manual_seed does
            model = model_class(config_class(**{**SHARED, **own, "num_hidden_layers": layers}))
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if name.endswith("bias") or parameter.dim() == 2:
                        parameter.normal_(std=0.4)
        if dtype == torch.float64:
            norm_in_float64(model)
        return model.to(dtype).eval()

    def sentences(self, seed: int, count: int = 6, longest: int = 9, shortest: int = 1) -> list[tuple[Tensor, int]]:
        """Random texts of random lengths as token ids, with their labels."""
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.randint(shortest, longest + 1, (count,), generator=generator).tolist()
        labels = torch.randint(3, (count,), generator=generator).tolist()
        return [
            (torch.randint(1, 30, (n,), generator=generator), label) for n, label in zip(lengths, labels, strict=True)
        ]

    def batch(self, sentences: Sequence[tuple[Tensor, int]], padding: str = "right", extra: int = 0) -> Batch:
        """One batch, padded ``extra`` tokens beyond its longest text. Positions count from the first real token."""
        width = max(len(ids) for ids, _ in sentences) + extra
        ids, mask, positions = (torch.zeros(len(sentences), width, dtype=torch.long) for _ in range(3))
        for row, (sentence, _) in enumerate(sentences):
            begin = width - len(sentence) if padding == "left" else 0
            real = slice(begin, begin + len(sentence))
            ids[row, real], mask[row, real], positions[row, real] = sentence, 1, torch.arange(len(sentence))
        labels = torch.tensor([label for _, label in sentences])
        return Batch({"input_ids": ids, "attention_mask": mask, "position_ids": positions}, labels)

    def alone(self, sentences: Sequence[tuple[Tensor, int]]) -> list[Batch]:
        """Each text as a batch of its own, without padding."""
        return [self.batch([sentence]) for sentence in sentences]

    def view(
        self, model: nn.Module, batches: Sequence[Batch], unit: str = "group", kept: Tensor | None = None, seed: int = 0
    ) -> View:
        """A view of ``model`` for classification, with ``batches`` for calibration and training."""
        heads = HeadMap.of(model, unit)
        return View(
            model=model,
            heads=heads,
            batches=batches,
            kept=heads.full_mask() if kept is None else kept,
            generator=torch.Generator().manual_seed(seed),
            forward=lambda model, batch: model(**batch.inputs).logits,
            loss_of_logits=lambda logits, batch: F.cross_entropy(logits, batch.labels, reduction="none"),
            training=TinyTraining(batches),
        )

    def unit(self, architecture: str) -> str:
        """What a unit is where heads share keys and values."""
        return "query" if architecture.endswith("-query") else "group"

    def sides(self, architecture: str) -> tuple[str, ...]:
        """Sides on which padding is harmless. BERT and ALBERT classify by the token at position 0."""
        return ("left", "right") if architecture.startswith("llama") else ("right", "right")

    def random_view(self, architecture: str, seed: int = 0, dtype: torch.dtype = torch.float32, **texts: int) -> View:
        """A view of a random model on one batch of random texts; ``texts`` as in ``sentences``."""
        model = self.model(architecture, seed, dtype)
        return self.view(model, [self.batch(self.sentences(seed, **texts))], self.unit(architecture))
