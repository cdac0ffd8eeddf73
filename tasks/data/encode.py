"""From texts to token ids, and from token ids to padded batches, with any Hugging Face tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from tasks.data.dataset import Example

CHUNK = 1000  # examples per call of the tokenizer, which bounds its memory


class Encoded(NamedTuple):
    """One example as token ids, without padding."""

    tokens: dict[str, list[int]]  # input_ids, attention_mask and, if the tokenizer gives them, token_type_ids
    label: int


class Batch(NamedTuple):
    """Some examples as tensors, padded to the longest of them."""

    indices: Tensor  # (B,) int64 on the CPU: index of each row in the sequence that was batched
    inputs: dict[str, Tensor]  # (B, T) int64 each, with the keys of Encoded.tokens
    labels: Tensor  # (B,) int64


def encode(examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int) -> list[Encoded]:
    """Tokenize single texts or pairs, in order, truncated to ``max_length`` tokens.

    A pair loses tokens from its longer text first.

    Raises:
        ValueError: an example has neither one text nor two, or single texts and pairs are mixed.
    """
    widths = {len(example.texts) for example in examples}
    if not widths <= {1} and widths != {2}:
        raise ValueError(f"examples must all hold one text or all hold two, found {sorted(widths)} texts per example")
    encoded: list[Encoded] = []
    for start in range(0, len(examples), CHUNK):
        chunk = examples[start : start + CHUNK]
        columns = [list(column) for column in zip(*(example.texts for example in chunk), strict=True)]
        tokens = tokenizer(*columns, truncation=True, max_length=max_length)
        for row, example in enumerate(chunk):
            encoded.append(Encoded({name: tokens[name][row] for name in tokens}, example.label))
    return encoded


def batches(
    encoded: Sequence[Encoded],
    tokenizer: PreTrainedTokenizerBase,
    batch_size: int,
    *,
    by_length: bool = False,
    device: torch.device | str = "cpu",
) -> Iterator[Batch]:
    """Batches of all of ``encoded``, in order or, with ``by_length``, from longest to shortest, which saves padding.

    ``Batch.indices`` gives the original order.

    Raises:
        ValueError: the tokenizer has neither a padding token nor an end-of-sequence token.
    """
    pad_id = padding_id(tokenizer)
    order = list(range(len(encoded)))
    if by_length:
        order.sort(key=lambda index: -len(encoded[index].tokens["input_ids"]))  # stable: ties keep their order
    for start in range(0, len(order), batch_size):
        yield collate(encoded, order[start : start + batch_size], pad_id, tokenizer.padding_side, device)


def collate(
    encoded: Sequence[Encoded],
    indices: Sequence[int],
    pad_id: int,
    padding_side: str = "right",
    device: torch.device | str = "cpu",
) -> Batch:
    """The examples at ``indices`` as one batch: ids padded with ``pad_id``, all other inputs with 0."""
    rows = [encoded[index].tokens for index in indices]
    length = max(len(row["input_ids"]) for row in rows)
    inputs: dict[str, Tensor] = {}
    for name in rows[0]:
        fill = pad_id if name == "input_ids" else 0
        padded = []
        for row in rows:
            padding = [fill] * (length - len(row[name]))
            padded.append(row[name] + padding if padding_side == "right" else padding + row[name])
        inputs[name] = torch.tensor(padded, device=device)  # (B, T)
    labels = torch.tensor([encoded[index].label for index in indices], device=device)
    return Batch(torch.tensor(list(indices)), inputs, labels)


def median_length(encoded: Sequence[Encoded], size: int) -> list[Encoded]:
    """``size`` examples from the middle of the order by length, repeated if there are fewer."""
    by_length = sorted(encoded, key=lambda example: len(example.tokens["input_ids"]))
    middle = max(0, (len(by_length) - size) // 2)
    return (by_length[middle : middle + size] * size)[:size]


def padding_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Id to pad with: the padding token or, as decoders often have none, the end-of-sequence token.

    Padding is masked, so the choice changes no result; but a classifier that reads the last token of a sequence finds
    it by ``model.config.pad_token_id``, which must then be this id.

    Raises:
        ValueError: the tokenizer has neither.
    """
    for token_id in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token_id is not None:
            return token_id
    raise ValueError(f"{type(tokenizer).__name__} has no pad_token and no eos_token: set tokenizer.pad_token")
