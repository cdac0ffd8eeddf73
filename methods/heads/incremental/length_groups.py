"""Grouping the examples of a batch by length, to spare the padding behind the shorter ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from methods.heads.finding.linear import Linear, is_linear

# A pass takes as long as so many multiplications (of a weight with a token) even before it computes any.
PASS_COST = {"cpu": 2**24}
PASS_COST_ELSEWHERE = 2**36


@dataclass(frozen=True)
class LengthGroup:
    """Examples of about the same length: inputs, (B, T) each, and labels, (B,) or (B, ...)."""

    inputs: dict[str, Tensor]
    labels: Tensor

    @property
    def tokens(self) -> int:
        """Number of tokens, padding included; of images, which have none, of all their values."""
        return self.inputs.get("input_ids", next(iter(self.inputs.values()))).numel()

    def repeated(self, copies: int) -> LengthGroup:
        """``copies`` of the group, one after the other: (copies * B, T) and (copies * B, ...)."""
        inputs = {name: _repeat(values, copies) for name, values in self.inputs.items()}
        return LengthGroup(inputs, _repeat(self.labels, copies))

    def totals(self, losses: Tensor, copies: int) -> Tensor:
        """Sum over the examples of each copy, (copies,) in float64 on the CPU, of the losses of ``repeated(copies)``.

        losses: (copies * B,). Raises ValueError for losses of another shape.
        """
        examples = copies * len(self.labels)
        if losses.shape != (examples,):
            raise ValueError(
                f"the loss of {examples} examples must have shape ({examples},), not {tuple(losses.shape)}"
            )
        return losses.unflatten(0, (copies, -1)).double().sum(1).cpu()


def _repeat(values: Tensor, copies: int) -> Tensor:
    """``copies`` of (B, ...), one after the other: (copies * B, ...)."""
    return values.repeat(copies, *[1] * (values.dim() - 1))


def group_by_length(batches: Iterable[Any], model: nn.Module, copies: int) -> list[LengthGroup]:
    """All examples of ``batches``, each batch split into groups of similar length, to run ``copies`` of each at once.

    More groups mean less padding but more passes through ``model``; a batch is split where that saves time and where
    each example has a single label.
    """
    weights = sum(cast(Linear, module).weight.numel() for module in model.modules() if is_linear(module))
    cost_of_token = copies * max(1, weights)
    return [group for batch in batches for group in _groups(batch, cost_of_token)]


def _groups(batch: Any, cost_of_token: int) -> list[LengthGroup]:
    mask = batch.inputs.get("attention_mask")
    if mask is None or batch.labels.dim() > 1:  # labels may have an entry per token, to be cut as the logits are
        return [LengthGroup(batch.inputs, batch.labels)]
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    # Up to the last token that is not padding; an empty text keeps one token, as no model runs without any.
    lengths: list[int] = ((mask != 0) * places).amax(1).clamp_min(1).tolist()
    worthwhile = PASS_COST.get(mask.device.type, PASS_COST_ELSEWHERE) / cost_of_token  # tokens of padding
    groups: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not groups or len(groups[-1]) * (lengths[row] - lengths[groups[-1][-1]]) > worthwhile:
            groups.append([])
        groups[-1].append(row)
    return [_select(batch, mask.shape, rows, lengths[rows[-1]]) for rows in groups]


def _select(batch: Any, shape: torch.Size, rows: list[int], length: int) -> LengthGroup:
    """The examples ``rows``; inputs of ``shape``, the attention mask's, are cut to ``length`` tokens."""
    inputs = {
        name: values[rows, :length] if values.shape == shape and not name.startswith("decoder") else values[rows]
        for name, values in batch.inputs.items()
    }
    return LengthGroup(inputs, batch.labels[rows])
