"""One pass over a batch that fans out on its way up: copies of it, each without one unit of the same site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from methods.heads.head_map import HeadMap

Value = TypeVar("Value")


@dataclass(frozen=True)
class Fan:
    """Copies of a batch, made behind the attention of one block; rows stand copy by copy.

    columns: for each copy, the columns of the context that are to be zero. rows: examples of the batch.
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

    def spread_out(self, hidden: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """The block's input and its heads' contexts, (rows, T, ...), for all copies."""
        copies = len(self.columns)
        contexts = context.repeat(copies, 1, 1)
        for columns, copy in zip(self.columns, contexts.split(self.rows), strict=True):
            copy[..., columns.to(copy.device)] = 0
        return hidden.repeat(copies, 1, 1), contexts


@dataclass(frozen=True)
class Repeated:
    """A batch several times over, the copies one after the other."""

    inputs: dict[str, Tensor]
    labels: Tensor

    @classmethod
    def of(cls, batch: Any, copies: int) -> Repeated:
        """``copies`` times the inputs and labels of ``batch``."""
        inputs = {name: value.repeat(copies, *[1] * (value.dim() - 1)) for name, value in batch.inputs.items()}
        return cls(inputs, batch.labels.repeat(copies))


def _first(value: Any, rows: int, of: int) -> Any:
    """The first ``rows`` of every tensor that has ``of`` of them; all else as it is."""
    if isinstance(value, Tensor):
        return value[:rows] if rows < of and value.dim() and len(value) == of else value
    if isinstance(value, tuple):
        return tuple(_first(each, rows, of) for each in value)
    if isinstance(value, dict):
        return {name: _first(each, rows, of) for name, each in value.items()}
    return value
