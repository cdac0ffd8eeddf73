"""Fused projections in four parts (CodeGen), which begin and end within a head when some heads are gone."""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import nn

from methods.heads.finding.site import Site
from methods.heads.mechanisms.mechanism import Mechanism


class Quarters(Mechanism):
    """Lets the module put its heads together from quarters that begin and end within a head."""

    def applies(self, site: Site) -> bool:
        return site.layout.order == "quarters"

    def adjust(self, model: nn.Module, site: Site, kept: list[int]) -> None:
        module: Any = model.get_submodule(site.name)
        module._split_heads = MethodType(_split_heads, module)


def _split_heads(self: Any, x: torch.Tensor, heads: int, head_dim: int, mp_num: int) -> torch.Tensor:
    return x.flatten(-2).unflatten(-1, (heads, head_dim))  # (B, T, 4, H * d_h / 4) to (B, T, H, d_h)
