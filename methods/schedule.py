"""From importances to removal orders: when to score again, which end to start at, how layers share the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from methods.heads import HeadMap, gated
from methods.options import AtLeast
from methods.view import View


class NonFiniteScore(ArithmeticError):
    """A method gave a NaN or an infinite importance to a unit that is still there."""


@dataclass(frozen=True)
class Importance:
    """Importances of heads and of neurons; larger means keep.

    units: (units,) or (draws, units); None where no head is to be removed.
    neurons: by name of the feed-forward layer (``methods.heads.find_mlps``), (width,) or (draws, width); the same share
        of every layer's neurons is removed as of the units. None where no neuron is to be removed.
    """

    units: Tensor | None
    neurons: Mapping[str, Tensor] | None = None


@dataclass(frozen=True)
class Schedule:
    """How a scorer's importances become a removal order: by default scored once, least important removed first."""

    schedule: Annotated[Literal["one-shot", "greedy"], "score once, or again after every step"] = "one-shot"
    step: Annotated[int, "units removed between two scorings of a greedy schedule", AtLeast(1)] = 1
    inverse: Annotated[bool, "remove the most important first"] = False
    allocation: Annotated[Literal["global", "layer"], "rank all units together, or take equally from every layer"] = (
        "global"
    )


def removal_orders(score: Callable[[View], Tensor], view: View, plan: Schedule) -> list[Tensor]:
    """Removal orders of all units, each a (units,) tensor of unit indices, first removed first.

    One order, unless the scorer is random by nature and returns (draws, units). Raises NonFiniteScore; ValueError for
    scores of another shape, or several draws under a greedy schedule.
    """
    if plan.schedule == "one-shot":
        return [_order(draw, view, plan) for draw in _checked(score(view), view)]
    order: list[Tensor] = []
    kept = view.kept.clone()
    while kept.any():
        with gated(view.model, kept.float(), view.heads):
            now = replace(view, kept=kept)
            draws = _checked(score(now), now)
        if len(draws) > 1:
            raise ValueError(f"{len(draws)} draws under a greedy schedule, which follows one: give draws=1")
        next_removed = _order(draws[0], now, plan)[: plan.step]
        kept = kept.clone()
        kept[next_removed] = False
        order.append(next_removed)
    return [torch.cat(order)]


def mask_without(order: Tensor, removed: int) -> Tensor:
    """Mask, (units,) bool, of what is kept when the first ``removed`` units of ``order`` are gone."""
    mask = torch.ones(len(order), dtype=torch.bool)
    mask[order[:removed]] = False
    return mask


def _checked(scores: Tensor, view: View) -> Tensor:
    """``scores`` as (draws, units) in float64 on the CPU, finite wherever a unit is still there."""
    units = len(view.heads)
    if scores.dim() not in (1, 2) or 0 in scores.shape or scores.shape[-1] != units:
        raise ValueError(f"importance of shape {tuple(scores.shape)}, expected ({units},): one entry a unit")
    draws = scores.detach().double().cpu().reshape(-1, units)
    bad = (~draws.isfinite() & view.kept).nonzero().tolist()
    if bad:
        draw, unit = bad[0]
        value = draws[draw, unit].item()
        raise NonFiniteScore(f"importance {value} for {_name(view.heads, unit)} ({len(bad)} such)")
    return draws


def _order(scores: Tensor, view: View, plan: Schedule) -> Tensor:
    """Indices of the units kept, in the order in which ``plan`` removes them; ties go by index."""
    units = view.kept.nonzero().flatten()
    ranked = units[(scores[units] * (-1 if plan.inverse else 1)).argsort(stable=True)]
    if plan.allocation == "global":
        return ranked
    sites = view.heads.site_of_unit[ranked]
    # Taking equally means taking first from the site with the most units left.
    left = torch.stack([(sites[i:] == site).sum() for i, site in enumerate(sites)])
    return ranked[left.argsort(descending=True, stable=True)]


def _name(heads: HeadMap, unit: int) -> str:
    site, members = heads.units[unit].site, heads.units[unit].heads
    return f"head {', '.join(map(str, members))} of {heads.sites[site].name}"
