"""One pass over a batch that fans out on its way up: copies of it, each without one unit of the same site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from methods.heads.finding.head_map import HeadMap
from methods.heads.finding.linear import transposed

Value = TypeVar("Value")


@dataclass(frozen=True)
class Fan:
    """Copies of a batch, made behind the attention of one block; rows stand copy by copy.

    columns: for each copy, the columns of the context that it does without. rows: examples of the batch.
    """

    block: int
    columns: list[Tensor]
    rows: int

    @classmethod
    def of(cls, heads: HeadMap, units: Sequence[int], rows: int) -> Fan:
        """A copy without each of ``units``, which are of one site. Raises ValueError where they are not."""
        sites = {heads.units[unit].site for unit in units}
        if len(sites) != 1:
            raise ValueError(f"units of one site are left out side by side, not of {len(sites)}")
        site = heads.sites[sites.pop()]
        columns = [site.columns(heads.units[unit].heads) for unit in units]
        return cls(site.layer, columns, rows)

    def once(self, value: Value) -> Value:
        """Of every tensor that is for all copies, also in tuples and dicts, the rows of the first."""
        return _first(value, self.rows, self.rows * len(self.columns))

    def spread_out(self, hidden: Tensor) -> Tensor:
        """The block's input, (rows, T, d), for all copies."""
        return hidden.repeat(len(self.columns), 1, 1)

    def project(self, linear: nn.Module, forward: Callable[[Tensor], Tensor], context: Tensor) -> Tensor:
        """Outputs for all copies, (copies * rows, T, d), from the contexts of all heads, (rows, T, H * d_h).

        They are the output of all heads less what each copy lacks, which is cheaper than a projection a copy. In half
        precision little would be left of a small difference between large numbers: there each copy is projected.
        """
        weight = transposed(linear)  # (H * d_h, d)
        if context.dtype != weight.dtype or weight.dtype.itemsize < 4 or torch.is_autocast_enabled(weight.device.type):
            contexts = context.repeat(len(self.columns), 1, 1)
            for columns, copy in zip(self.columns, contexts.split(self.rows), strict=True):
                copy[..., columns.to(copy.device)] = 0
            return forward(contexts)
        whole = forward(context)  # (rows, T, d)
        outputs = whole.new_empty(len(self.columns), *whole.shape)
        for columns, output in zip(self.columns, outputs, strict=True):
            some = columns.to(context.device)
            lacks = context[..., some].flatten(0, 1)
            torch.addmm(whole.flatten(0, 1), lacks, weight[some], alpha=-1, out=output.flatten(0, 1))
        return outputs.flatten(0, 1)


def _first(value: Any, rows: int, of: int) -> Any:
    """The first ``rows`` of every tensor that has ``of`` of them; all else as it is."""
    if isinstance(value, Tensor):
        return value[:rows] if rows < of and value.dim() and len(value) == of else value
    if isinstance(value, tuple):
        return tuple(_first(each, rows, of) for each in value)
    if isinstance(value, dict):
        return {name: _first(each, rows, of) for name, each in value.items()}
    return value
