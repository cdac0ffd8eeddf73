"""Examples of a batch that belong together by their length, to be run without the padding behind all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from methods.heads.finding.linear import Linear, is_linear

PASS = {"cpu": 2**24}  # products, of a weight and a token each, that take about as long as a pass does besides them
PASS_ELSEWHERE = 2**36


@dataclass(frozen=True)
class Portion:
    """Some examples of a batch: inputs, (R, T) each, and labels, (R,)."""

    inputs: dict[str, Tensor]
    labels: Tensor

    @classmethod
    def by_length(cls, batches: Iterable[Any], model: nn.Module, copies: int) -> list[Portion]:
        """All examples of ``batches``, those of a batch and about the same length together, to run ``copies`` of each.

        More portions mean less padding but more passes through ``model``; another is made where that saves time.
        """
        weights = sum(cast(Linear, module).weight.numel() for module in model.modules() if is_linear(module))
        products = copies * max(1, weights)  # for a token
        return [portion for batch in batches for portion in cls._split(batch, products)]

    @classmethod
    def _split(cls, batch: Any, products: int) -> list[Portion]:
        mask = batch.inputs.get("attention_mask")
        if mask is None:
            return [cls(batch.inputs, batch.labels)]
        places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        # Up to the last token that is not padding; a text of none at all keeps one, as no model runs without.
        lengths: list[int] = ((mask != 0) * places).amax(1).clamp_min(1).tolist()
        padding = PASS.get(mask.device.type, PASS_ELSEWHERE) / products  # tokens
        groups: list[list[int]] = []
        for row in sorted(range(len(lengths)), key=lengths.__getitem__):
            if not groups or len(groups[-1]) * (lengths[row] - lengths[groups[-1][-1]]) > padding:
                groups.append([])
            groups[-1].append(row)
        return [cls._of(batch, mask.shape, group, lengths[group[-1]]) for group in groups]

    @classmethod
    def _of(cls, batch: Any, shape: torch.Size, rows: list[int], length: int) -> Portion:
        """Those at ``rows``; of inputs of ``shape``, as the mask of the text has, ``length`` tokens."""
        inputs = {
            name: values[rows, :length] if values.shape == shape and not name.startswith("decoder") else values[rows]
            for name, values in batch.inputs.items()
        }
        return cls(inputs, batch.labels[rows])

    def repeated(self, copies: int) -> Portion:
        """The same, ``copies`` times, one after the other."""
        inputs = {name: values.repeat(copies, *[1] * (values.dim() - 1)) for name, values in self.inputs.items()}
        return Portion(inputs, self.labels.repeat(copies))
