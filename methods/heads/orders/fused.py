"""What the order of rows in a projection depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

ROLES = ("query", "key", "value")


@dataclass(frozen=True)
class Fused:
    """A projection that gives the outputs of some ``roles``, in that order.

    numbers, widths: of the heads of every role of the module, whichever projection it has.
    """

    roles: tuple[str, ...]
    numbers: Mapping[str, int]
    widths: Mapping[str, int]


# Takes a role and places of heads of it, LongTensor (n,); gives their rows, LongTensor (n * width,), head by head.
Order = Callable[[str, torch.Tensor, Fused], torch.Tensor]


def rows_from(first: torch.Tensor, width: int) -> torch.Tensor:
    """``width`` rows from each of the ``first`` ones, (n,): LongTensor (n * width,)."""
    return (first[:, None] + torch.arange(width)).flatten()
