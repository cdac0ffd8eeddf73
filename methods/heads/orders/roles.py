"""Role by role: the rows of all heads of the first role, then those of the next. Also for one role alone."""

from __future__ import annotations

import torch

from methods.heads.orders.fused import Fused, rows_from


def rows(role: str, places: torch.Tensor, fused: Fused) -> torch.Tensor:
    """Rows of the heads at ``places``: LongTensor (n * width,)."""
    before = fused.roles[: fused.roles.index(role)]
    offset = sum(fused.numbers[each] * fused.widths[each] for each in before)
    return rows_from(places * fused.widths[role] + offset, fused.widths[role])
