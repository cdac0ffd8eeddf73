"""Norms of queries or keys over all heads at once (OLMo 2, OLMoE, MiniMax-M2, ESM C).

What such a norm divides by depends on every head, so the projection keeps the outputs of heads that are removed, and
the norm goes on over all of them; it hands on those of the heads that are left. This is exact for every input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from methods.heads.finding.linear import select
from methods.heads.finding.site import Site
from methods.heads.mechanisms.mechanism import Mechanism


class WideNorms(Mechanism):
    """Makes norms hand on only the heads that are left; when none is, nothing is left to normalise either."""

    def applies(self, site: Site) -> bool:
        return bool(site.norms)

    def cut(self, model: nn.Module, site: Site, kept: list[int]) -> dict[int, nn.Parameter]:
        norms = [each for path in site.norms.values() for each in model.get_submodule(path).parameters()]
        return {} if kept else {id(each): select(each, 0, torch.tensor(kept, dtype=torch.long)) for each in norms}

    def adjust(self, model: nn.Module, site: Site, kept: list[int]) -> None:
        for role, path in site.norms.items() if len(kept) < site.num_heads else ():
            select_heads(model.get_submodule(path), site.narrowed(kept).places[role], site.widths[role])


def select_heads(norm: Any, places: Sequence[int], width: int) -> None:
    """Make ``norm`` hand on only the heads at ``places`` of all those that it is given, each ``width`` wide."""
    if not hasattr(norm, "places"):
        norm.register_forward_hook(_select)
    norm.places, norm.width_of_head = list(places), width


def _select(norm: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output.unflatten(-1, (-1, norm.width_of_head))[..., norm.places, :].flatten(-2)
