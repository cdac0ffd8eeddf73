"""Pairs of texts as token ids, in padded batches: a source for the encoder, a target for the decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
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

    Inputs are ``input_ids`` and ``attention_mask``, (B, S); ``decoder_input_ids``, ``decoder_attention_mask`` and
    ``decoder_targets``, (B, T). Targets are 0 at padding.

    Everything is padded on the right, whatever the tokenizer's side: encoders that number positions from the left, as
    Marian and BART do, would otherwise read a source differently beside a longer one.
    """
    chosen, pad = [pairs[index] for index in indices], padding_id(tokenizer)

    def padded(rows: Sequence[list[int]], fill: int) -> Tensor:
        longest = max(map(len, rows))
        return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows], device=device)

    inputs = {
        "input_ids": padded([pair.source for pair in chosen], pad),
        "attention_mask": padded([[1] * len(pair.source) for pair in chosen], 0),
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
