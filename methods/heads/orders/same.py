"""The same rows for every role: the keys serve as values."""

from __future__ import annotations

import torch

from methods.heads.orders.fused import Fused, rows_from


def rows(role: str, places: torch.Tensor, fused: Fused) -> torch.Tensor:
    """Rows of the heads at ``places``: LongTensor (n * width,)."""
    return rows_from(places * fused.widths[role], fused.widths[role])
