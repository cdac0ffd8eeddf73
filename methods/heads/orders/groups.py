"""Group by group: the queries of the first key/value head, its key and its value, then those of the next."""

from __future__ import annotations

import torch

from methods.heads.orders.fused import Fused, rows_from


def rows(role: str, places: torch.Tensor, fused: Fused) -> torch.Tensor:
    """Rows of the heads at ``places``: LongTensor (n * width,)."""
    groups = fused.numbers["key"]
    number = {each: fused.numbers[each] // groups if groups else 1 for each in fused.numbers}  # in one group
    width_of = {each: number[each] * fused.widths[each] for each in fused.roles}
    offset = sum(width_of[each] for each in fused.roles[: fused.roles.index(role)])
    of_group, in_group = places // number[role], places % number[role]
    return rows_from(of_group * sum(width_of.values()) + offset + in_group * fused.widths[role], fused.widths[role])
