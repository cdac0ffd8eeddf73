"""What a model makes of each token of the targets when it is given the source and the tokens before it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from tasks.data.encode import Batch
from tasks.translating.pairs import Pair, batches

BATCH = 64
LOGITS = 2**26  # logits in a batch, approximately: 256 MB in float32


def batch_size(examples: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, most: int = BATCH) -> int:
    """Number of ``examples``, at most ``most``, whose logits together stay near ``LOGITS``."""
    longest = max(len(pair.target) for pair in examples)
    return min(most, max(1, LOGITS // (longest * len(tokenizer))))


def logits(model: nn.Module, batch: Batch) -> Tensor:
    """Logits of each token of the targets, (B, T, vocabulary); 0 at padding."""
    inputs = {name: values for name, values in batch.inputs.items() if name != "decoder_targets"}
    mask = inputs["decoder_attention_mask"]
    found = model(**inputs, use_cache=False).logits
    return found if bool(mask.all()) else found * mask[..., None]


def loss(logits: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of the target's tokens: its mean in each pair, (B,).

    logits: (B, T, vocabulary). smoothing: what the wanted distribution gives to all tokens alike (Szegedy et al. 2016).
    """
    targets, real = batch.inputs["decoder_targets"], batch.inputs["decoder_attention_mask"]
    losses = F.cross_entropy(
        logits.flatten(0, 1).float(), targets.flatten(), reduction="none", label_smoothing=smoothing
    ).view_as(targets)
    return (losses * real).sum(1) / real.sum(1)


@torch.no_grad()
def tokens_right(model: nn.Module, pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase) -> float:
    """Share of the targets' tokens that ``model`` finds likeliest."""
    right = total = 0
    device = next(model.parameters()).device
    for batch in batches(pairs, tokenizer, batch_size(pairs, tokenizer), device):
        real = batch.inputs["decoder_attention_mask"].bool()
        found = logits(model, batch).argmax(-1) == batch.inputs["decoder_targets"]
        right, total = right + int(found[real].sum()), total + int(real.sum())
    return right / total


@torch.no_grad()
def nats(model: nn.Module, pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, most: int) -> float:
    """Mean loss over all tokens of the targets, in batches of at most ``most`` pairs.

    Raises FloatingPointError if a loss is not finite.
    """
    total = 0.0
    device = next(model.parameters()).device
    for batch in batches(pairs, tokenizer, batch_size(pairs, tokenizer, most), device):
        losses = loss(logits(model, batch), batch).double().cpu()
        if not losses.isfinite().all():
            first = int(batch.indices[(~losses.isfinite()).nonzero()[0, 0]])
            raise FloatingPointError(f"logits are not finite, first for test example {first}")
        total += float(losses @ batch.inputs["decoder_attention_mask"].sum(1).double().cpu())
    return total / sum(len(pair.target) for pair in pairs)
