"""The description of one attention module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from methods.heads.finding.layouts import ROLES, Layout


@dataclass(frozen=True)
class Site:
    """One attention module of a model.

    ``layers`` lists every layer that runs the module: more than one where layers are tied (ALBERT). ``projections``
    maps "query", "key" and "value" to the dotted paths of their modules, which are the same path where the projection
    is fused; ``output`` is the path of the output projection.
    """

    name: str  # dotted path of the attention module
    kind: str  # "encoder", "decoder" or "cross"
    layer: int
    layers: tuple[int, ...]
    num_heads: int  # query heads now present
    num_key_value_heads: int
    head_dim: int
    projections: dict[str, str] = field(repr=False, hash=False)
    output: str = field(repr=False)
    layout: Layout = field(repr=False)
    never_empty: bool = False  # it cannot run without any head, so one of its units always stays

    @property
    def calls(self) -> int:
        """Number of times that the module runs in one forward pass."""
        return len(self.layers)

    @property
    def queries_per_group(self) -> int:
        """Number of query heads that share one key/value head; 1 if no head is left."""
        return self.num_heads // self.num_key_value_heads if self.num_key_value_heads else 1

    def heads_of(self, role: str) -> int:
        """Number of heads of ``role``: "query", "key" or "value"."""
        return self.num_heads if role == "query" else self.num_key_value_heads

    def rows(self, role: str, heads: list[int]) -> torch.Tensor:
        """Indices of the outputs of the projection of ``role`` for ``heads``: LongTensor (len(heads) * head_dim,)."""
        fused = [other for other in ROLES if self.projections[other] == self.projections[role]]
        before = fused[: fused.index(role)]
        if self.layout.interleaved:
            stride, offset = len(fused), len(before)
        else:
            stride, offset = 1, sum(self.heads_of(other) for other in before)
        first = (torch.tensor(heads, dtype=torch.long) * stride + offset) * self.head_dim
        return (first[:, None] + torch.arange(self.head_dim)).flatten()

    def columns(self, heads: Sequence[int]) -> torch.Tensor:
        """Indices of the output projection's inputs for ``heads``: LongTensor (len(heads) * head_dim,)."""
        first = torch.tensor(heads, dtype=torch.long) * self.head_dim
        return (first[:, None] + torch.arange(self.head_dim)).flatten()
