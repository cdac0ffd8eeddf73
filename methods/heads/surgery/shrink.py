"""Removing heads step by step: a working copy that gets smaller, and the units that are left of it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TypeVar

import torch
from torch import nn

from methods.heads.finding.head_map import HeadMap, Unit
from methods.heads.finding.site import Site
from methods.heads.surgery.remove import keep_heads

Model = TypeVar("Model", bound=nn.Module)


def working_copy(model: Model) -> Model:
    """A copy to remove heads from in place. It shares all parameters and buffers, so it takes no memory for them.

    Removal puts narrower parameters in the place of the shared ones; the model itself stays as it is. The copy has
    the model's hooks too, so make it outside of ``gated`` and ``observed``.
    """
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared)


def shrink(model: nn.Module, mask: torch.Tensor, heads: HeadMap) -> HeadMap:
    """Remove in place the units that ``mask``, (units,) bool, does not keep; the map of those that stay, in order.

    Units keep their query heads, under new numbers. (Made anew, a map might draw them otherwise: with one query head
    left in every group, each would be a unit of its own.) ``heads`` has to be the map of this very model, which is
    taken on trust: to look for its sites takes longer than a pass. Raises as ``remove_heads`` does.
    """
    left = heads.kept(mask)
    # Layers that hand a position bias on, as T5's do, have to expect one of another width even where they stay.
    changed = tuple(s for s in heads.sites if len(left[s.name]) < s.num_heads or s.layout.position_bias)
    keep_heads(model, changed, left, in_place=True)
    units = [
        Unit(unit.site, tuple(left[heads.sites[unit.site].name].index(head) for head in unit.heads))
        for unit, keep in zip(heads.units, mask.tolist(), strict=True)
        if keep
    ]
    return HeadMap(tuple(_narrowed(site, left[site.name]) for site in heads.sites), tuple(units), heads.unit)


def _narrowed(site: Site, left: list[int]) -> Site:
    """``site`` once only the query heads ``left`` are there, as it would be found anew."""
    groups = {head // site.queries_per_group for head in left}
    return replace(site, num_heads=len(left), num_key_value_heads=len(groups))
