"""Removing heads step by step from a working copy."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TypeVar

import torch
from torch import nn

from methods.heads.finding.head_map import HeadMap
from methods.heads.finding.site import Site
from methods.heads.finding.units import Unit
from methods.heads.mechanisms.every import mechanisms_of
from methods.heads.surgery.remove import keep_heads

Model = TypeVar("Model", bound=nn.Module)


def working_copy(model: Model) -> Model:
    """A copy to remove heads from in place. It shares all parameters and buffers, so it takes no memory for them.

    Removal replaces parameters of the copy by smaller ones, so the model itself does not change. The copy has the
    model's hooks too, so make it outside of ``gated`` and ``observed``.
    """
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared)


def shrink(model: nn.Module, mask: torch.Tensor, heads: HeadMap) -> HeadMap:
    """Remove in place the units that ``mask``, (units,) bool, does not keep; returns the map of those that stay.

    Units keep their order and their query heads, renumbered. (``HeadMap.of`` might form other units: with one query
    head left in every group, each would be a unit of its own.) ``heads`` must be the map of this model; this is not
    checked, as finding its sites takes longer than a forward pass. Raises as ``remove_heads`` does.
    """
    left = heads.kept(mask)
    changed = tuple(s for s in heads.sites if len(left[s.name]) < s.num_heads or _adjusted_anyway(s))
    keep_heads(model, changed, left, in_place=True)
    units = [
        Unit(unit.site, tuple(left[heads.sites[unit.site].name].index(head) for head in unit.heads))
        for unit, keep in zip(heads.units, mask.tolist(), strict=True)
        if keep
    ]
    return replace(heads, sites=tuple(site.narrowed(left[site.name]) for site in heads.sites), units=tuple(units))


def _adjusted_anyway(site: Site) -> bool:
    return any(mechanism.at_every_site for mechanism in mechanisms_of(site))
