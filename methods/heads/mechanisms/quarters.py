"""Fused projections in four parts, as CodeGen was trained on four chips: queries, values and keys of some heads each.

Each part of the model's own projection holds whole heads. With fewer heads it holds a quarter of all their entries
instead, which is the same where the heads are a multiple of four.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch

PARTS = 4
ROLES = ("query", "value", "key")  # in their order within a part


def rows_in_quarters(role: str, entries: torch.Tensor, width: int) -> torch.Tensor:
    """Rows of the fused projection for ``entries`` of ``role``, numbered through all heads: LongTensor, as given.

    width: entries of all heads together, a multiple of 4.
    """
    quarter = max(1, width // PARTS)
    return (entries // quarter * len(ROLES) + ROLES.index(role)) * quarter + entries % quarter


def split_anywhere(module: Any) -> None:
    """Let the module put its heads together from quarters that begin and end within a head."""
    module._split_heads = MethodType(_split_heads, module)


def _split_heads(self: Any, x: torch.Tensor, heads: int, head_dim: int, mp_num: int) -> torch.Tensor:
    return x.flatten(-2).unflatten(-1, (heads, head_dim))  # (B, T, 4, H * d_h / 4) to (B, T, H, d_h)
