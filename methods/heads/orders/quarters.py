"""Four parts, as CodeGen was trained on four chips: in each part queries, values and keys of some heads.

Each part of the model's own projection holds whole heads. With fewer heads it holds a quarter of all their entries
instead, which is the same where the heads are a multiple of four.
"""

from __future__ import annotations

import torch

from methods.heads.orders.fused import Fused, rows_from

PARTS = 4
WITHIN = ("query", "value", "key")  # roles in their order within a part


def rows(role: str, places: torch.Tensor, fused: Fused) -> torch.Tensor:
    """Rows of the heads at ``places``: LongTensor (n * width,). The entries of all heads must be a multiple of 4."""
    width = fused.widths[role]
    quarter = max(1, fused.numbers["query"] * width // PARTS)
    entries = rows_from(places * width, width)  # numbered through all heads
    return (entries // quarter * len(WITHIN) + WITHIN.index(role)) * quarter + entries % quarter
