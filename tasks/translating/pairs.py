"""Pairs of texts as token ids, in padded batches: a source for the encoder, a target for the decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from tasks.data.encode import Batch, Encoded, padding_id
from tasks.models.train import Recipe, TrainingSetup


class Pair(NamedTuple):
    """A source and its translation as token ids, without padding."""

    source: list[int]  # (S,)
    decoder: list[int]  # (T,), what the decoder reads: the target moved one place to the right
    target: list[int]  # (T,), what it is to give


def collate(
    pairs: Sequence[Pair], indices: Sequence[int], tokenizer: PreTrainedTokenizerBase, device: torch.device | str
) -> Batch:
    """The pairs at ``indices`` as one batch, whose labels are all 0.

    Inputs are ``input_ids`` and ``attention_mask``, (B, S), padded on the tokenizer's side; ``decoder_input_ids``,
    ``decoder_attention_mask`` and ``decoder_targets``, (B, T), padded on the right. Targets are 0 at padding.
    """
    chosen, pad = [pairs[index] for index in indices], padding_id(tokenizer)

    def padded(rows: Sequence[list[int]], fill: int, side: str = "right") -> Tensor:
        longest = max(map(len, rows))
        fills = [[fill] * (longest - len(row)) for row in rows]
        whole = [[*row, *some] if side == "right" else [*some, *row] for row, some in zip(rows, fills, strict=True)]
        return torch.tensor(whole, device=device)

    side = tokenizer.padding_side
    inputs = {
        "input_ids": padded([pair.source for pair in chosen], pad, side),
        "attention_mask": padded([[1] * len(pair.source) for pair in chosen], 0, side),
        "decoder_input_ids": padded([pair.decoder for pair in chosen], pad),
        "decoder_attention_mask": padded([[1] * len(pair.decoder) for pair in chosen], 0),
        "decoder_targets": padded([pair.target for pair in chosen], 0),
    }
    labels = torch.zeros(len(chosen), dtype=torch.long, device=device)
    return Batch(torch.tensor(list(indices)), inputs, labels)


def batches(
    pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, batch_size: int, device: torch.device | str
) -> Iterator[Batch]:
    """Batches of all of ``pairs``, from the longest source to the shortest; ``Batch.indices`` gives their order."""
    order = sorted(range(len(pairs)), key=lambda index: -len(pairs[index].source))  # stable: ties keep their order
    for start in range(0, len(order), batch_size):
        yield collate(pairs, order[start : start + batch_size], tokenizer, device)


def loss(logits: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of the target's tokens, each given the source and those before it: its mean in each pair, (B,).

    logits: (B, T, vocabulary). smoothing: what the wanted distribution gives to all tokens alike (Szegedy et al. 2016).
    """
    targets, real = batch.inputs["decoder_targets"], batch.inputs["decoder_attention_mask"]
    losses = F.cross_entropy(
        logits.flatten(0, 1).float(), targets.flatten(), reduction="none", label_smoothing=smoothing
    ).view_as(targets)
    return (losses * real).sum(1) / real.sum(1)


class PairTraining(TrainingSetup):
    """``TrainingSetup`` for pairs: batches of ``collate``, sorted by the length of their sources."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        tokenizer: PreTrainedTokenizerBase,
        recipe: Recipe,
        seed: int,
        device: torch.device | str,
        initial: Callable[[], Mapping[str, Tensor]] | None = None,
    ):
        sources = [Encoded({"input_ids": pair.source}, 0) for pair in pairs]
        super().__init__(sources, tokenizer, recipe, seed, device, initial)
        self._pairs = pairs

    def batches(self) -> Iterator[Batch]:
        for batch in super().batches():
            yield collate(self._pairs, batch.indices.tolist(), self._tokenizer, self._device)

    def in_batches_of(self, size: int) -> PairTraining:
        return self._by(super().in_batches_of(size))

    def with_steps(self, steps: int) -> PairTraining:
        return self._by(super().with_steps(steps))

    def _by(self, other: TrainingSetup) -> PairTraining:
        """These pairs under the recipe of ``other``."""
        return PairTraining(self._pairs, self._tokenizer, other._recipe, self._seed, self._device, self._initial)
