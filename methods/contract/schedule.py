"""From importances to removal orders: when to score again, which end to start at, how layers share the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from methods.contract.options import AtLeast, OptionError
from methods.contract.view import View
from methods.heads.finding.mlps import check_names, find_mlps
from methods.heads.surgery.shrink import shrink, working_copy


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

    recompute: Annotated[int, "units removed between two scorings, 1 being greedy; 0 scores once", AtLeast(0)] = 0
    inverse: Annotated[bool, "remove the most important first"] = False
    allocation: Annotated[Literal["global", "layer"], "rank all units together, or take equally from every layer"] = (
        "global"
    )


@dataclass(frozen=True)
class Trajectory:
    """What is removed first, of the units and of each feed-forward layer's neurons.

    order: (units,) indices of units, first removed first; None where units stay.
    neurons: by name of the layer, (width,) indices of neurons, likewise; None where neurons stay.
    scores: (scorings, units) float64, the importances behind ``order``, NaN for units that were gone by then.
    """

    order: Tensor | None
    neurons: Mapping[str, Tensor] | None = None
    scores: Tensor | None = None

    def units_kept(self, removed: int, units: int) -> Tensor:
        """Mask, (units,) bool, of what is kept when the first ``removed`` of ``units`` are gone."""
        mask = torch.ones(units, dtype=torch.bool)
        if self.order is not None:
            mask[self.order[:removed]] = False
        return mask

    def neurons_kept(self, removed: int, units: int) -> dict[str, Tensor] | None:
        """Masks, (width,) bool by layer, when the share removed/units of each layer's neurons is gone; halves go up."""
        if self.neurons is None:
            return None
        masks = {}
        for name, order in self.neurons.items():
            masks[name] = torch.ones(len(order), dtype=torch.bool)
            masks[name][order[: (2 * removed * len(order) + units) // (2 * units)]] = False
        return masks


def trajectories(score: Callable[[View], Tensor | Importance], view: View, plan: Schedule) -> list[Trajectory]:
    """What ``plan`` makes of a score: one trajectory, or one a draw if the score is random by nature.

    Raises NonFiniteScore; ValueError for importances of another shape; OptionError for several draws, or
    neurons, to be scored again after each step.
    """
    if plan.recompute:
        return [_greedy(score, view, plan)]
    given = score(view)
    importance = given if isinstance(given, Importance) else Importance(given)
    if importance.units is None and importance.neurons is None:
        raise ValueError("an importance of nothing: give units, neurons or both")
    paths = [Trajectory(None)]
    if importance.units is not None:
        names = [view.heads.name(unit) for unit in range(len(view.heads))]
        rows = _checked(importance.units, view, names)
        paths = [Trajectory(_order(row, view, plan), scores=row[None]) for row in rows]
    if importance.neurons is None:
        return paths
    check_names(find_mlps(view.model), importance.neurons, "importances of neurons")
    layers = {name: _order_of_neurons(name, scores, plan) for name, scores in importance.neurons.items()}
    draws = {len(paths)} if importance.units is not None else set()
    draws |= {len(layer) for layer in layers.values()}
    if len(draws) != 1:
        raise ValueError(f"importances of units and neurons with different numbers of draws: {sorted(draws)}")
    return [
        replace(paths[draw % len(paths)], neurons={name: layer[draw] for name, layer in layers.items()})
        for draw in range(draws.pop())
    ]


def _greedy(score: Callable[[View], Tensor | Importance], view: View, plan: Schedule) -> Trajectory:
    """What becomes of a score that is taken anew after every step, on a model without what is gone."""
    order: list[Tensor] = []
    rows: list[Tensor] = []
    units = torch.arange(len(view.heads))  # those left, as the whole model numbers them
    now = replace(view, model=working_copy(view.model), memory={})
    keep = view.kept
    while True:
        units = units[keep]
        if not len(units):
            return Trajectory(torch.cat([*order, units]), scores=torch.stack(rows) if rows else None)
        if not keep.all():
            heads = shrink(now.model, keep, now.heads)
            now = replace(now, heads=heads, kept=heads.full_mask())
        scores = score(now)
        if isinstance(scores, Importance):
            raise OptionError("scores taken anew remove heads alone, this one ranks neurons too: give recompute=0")
        draws = _checked(scores, now, [view.heads.name(unit) for unit in units.tolist()])
        if len(draws) > 1:
            raise OptionError(f"{len(draws)} draws, of which scores taken anew can follow one: give draws=1")
        rows.append(torch.full((len(view.heads),), torch.nan, dtype=torch.float64).index_copy(0, units, draws[0]))
        next_removed = _order(draws[0], now, plan)[: plan.recompute]
        order.append(units[next_removed])
        keep = torch.ones(len(units), dtype=torch.bool)
        keep[next_removed] = False


def _order_of_neurons(name: str, scores: Tensor, plan: Schedule) -> Tensor:
    """Removal orders of a layer's neurons, (draws, width)."""
    _check_real(scores, f"the importance of neurons of {name}", "(width,)")
    scores = scores.detach().double().cpu().reshape(-1, scores.shape[-1])
    if not scores.isfinite().all():
        neuron = int((~scores.isfinite()).nonzero()[0, 1])
        raise NonFiniteScore(f"importance {scores[:, neuron].tolist()} for neuron {neuron} of {name}")
    return (scores * (-1 if plan.inverse else 1)).argsort(dim=1, stable=True)


def _checked(scores: Tensor, view: View, names: list[str]) -> Tensor:
    """``scores`` as (draws, units) in float64 on the CPU, finite wherever a unit is still there. ``names`` of units."""
    units = len(view.heads)
    _check_real(scores, "the importance", f"({units},)")
    if scores.dim() not in (1, 2) or 0 in scores.shape or scores.shape[-1] != units:
        raise ValueError(f"importance of shape {tuple(scores.shape)}, expected ({units},): one entry a unit")
    draws = scores.detach().double().cpu().reshape(-1, units)
    bad = (~draws.isfinite() & view.kept).nonzero().tolist()
    if bad:
        draw, unit = bad[0]
        value = draws[draw, unit].item()
        raise NonFiniteScore(f"importance {value} for {names[unit]} ({len(bad)} such)")
    return draws


def _check_real(scores: object, said: str, shape: str) -> None:
    """Raise ValueError for what is no tensor, or one of complex numbers, which have no order."""
    if not isinstance(scores, Tensor):
        raise ValueError(f"{said} is a {type(scores).__name__}, expected a tensor of shape {shape}")
    if scores.is_complex():
        raise ValueError(f"{said} is of {scores.dtype}, expected real numbers")


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
