"""From importances to removal orders: when to score again, in which direction, and how much of each layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from methods.contract.options import AtLeast, OptionError
from methods.contract.view import View
from methods.heads.finding.mlps import Mlp, check_names, find_mlps
from methods.heads.surgery.shrink import shrink, working_copy


class NonFiniteScore(ArithmeticError):
    """A method gave a NaN or an infinite importance to a unit that has not been removed."""


@dataclass(frozen=True)
class Importance:
    """Importances of heads and of neurons; larger means keep.

    units: (units,) or (draws, units); None to remove no head.
    neurons: (width,) or (draws, width) by name of the feed-forward layer (``methods.heads.find_mlps``); every layer
        loses the same share of its neurons as the model of its units. None to remove no neuron.
    """

    units: Tensor | None
    neurons: Mapping[str, Tensor] | None = None


@dataclass(frozen=True)
class Schedule:
    """How importances become a removal order. By default, units are scored once and the least important go first.

    The norm of a layer is for scores whose layers differ in scale. It should not be used where units are scored again,
    as the last unit of a layer then always scores 1 (or -1), so ``auto`` leaves it out there.

    To remove equally from every layer is to take from the layer with the most units left, again and again. Layers with
    equally many units lose the same share; of others, the larger ones lose more until all have as many.
    """

    recompute: Annotated[int, "score again after removing this many units, 1 is greedy; 0 scores once", AtLeast(0)] = 0
    inverse: Annotated[bool, "remove the most important first"] = False
    allocation: Annotated[Literal["global", "layer"], "rank all units together, or remove equally from every layer"] = (
        "global"
    )
    layer_norm: Annotated[
        Literal["auto", True, False],
        "divide importances by the L2 norm over the units left in their layer; auto: where units are scored once",
    ] = False

    @property
    def normed(self) -> bool:
        """Whether importances are divided by the norm of their layer."""
        return self.layer_norm is True or (self.layer_norm == "auto" and not self.recompute)


@dataclass(frozen=True)
class Trajectory:
    """Removal orders of the units and of the neurons of each feed-forward layer.

    order: (units,) indices of units, first removed first; None if no head is removed.
    neurons: (width,) indices of neurons by name of the layer, first removed first; None if no neuron is removed.
    scores: (scorings, units) float64, the importances behind ``order``, NaN for units already removed.
    ties: removals in ``order`` in whose place another unit could have gone, as its importance is exactly the same: the
        one with the lower index did. Scores that differ by rounding alone do not count.
    """

    order: Tensor | None
    neurons: Mapping[str, Tensor] | None = None
    scores: Tensor | None = None
    ties: int = 0

    def units_kept(self, removed: int, units: int) -> Tensor:
        """Mask of the units kept, (units,) bool, when the first ``removed`` of ``units`` are removed."""
        mask = torch.ones(units, dtype=torch.bool)
        if self.order is not None:
            mask[self.order[:removed]] = False
        return mask

    def neurons_kept(self, removed: int, units: int) -> dict[str, Tensor] | None:
        """Masks of the neurons kept, (width,) bool by layer, when each layer loses the share removed/units of them.

        Half a neuron is rounded up.
        """
        if self.neurons is None:
            return None
        masks = {}
        for name, order in self.neurons.items():
            masks[name] = torch.ones(len(order), dtype=torch.bool)
            masks[name][order[: (2 * removed * len(order) + units) // (2 * units)]] = False
        return masks


def trajectories(score: Callable[[View], Tensor | Importance], view: View, schedule: Schedule) -> list[Trajectory]:
    """Apply ``schedule`` to a scorer: one trajectory per draw of its importances.

    Raises NonFiniteScore; ValueError for importances of a wrong type or shape; OptionError for a schedule that scores
    again if there are several draws, or neurons.
    """
    if schedule.recompute:
        return [_greedy(score, view, schedule)]
    scores = score(view)
    if scores is None:
        raise ValueError("returned None, expected importances: a tensor, or an Importance")
    importance = scores if isinstance(scores, Importance) else Importance(scores)
    if importance.units is None and importance.neurons is None:
        raise ValueError("the importance has neither units nor neurons")
    paths = [Trajectory(None)]
    if importance.units is not None:
        names = [view.heads.name(unit) for unit in range(len(view.heads))]
        rows = _scaled(_checked(importance.units, view, names), view, schedule)
        orders = [_order(row, view, schedule) for row in rows]
        paths = [
            Trajectory(
                order,
                scores=row[None],
                ties=_ties(order, row, view, schedule, len(order) - len(view.heads.never_empty)),
            )
            for row, order in zip(rows, orders, strict=True)
        ]
    if importance.neurons is None:
        return paths
    mlps = find_mlps(view.model)
    check_names(mlps, importance.neurons, "importances of neurons")
    layers = {mlp.name: _neuron_orders(mlp, importance.neurons[mlp.name], schedule) for mlp in mlps}
    draws = {len(paths)} if importance.units is not None else set()
    draws |= {len(layer) for layer in layers.values()}
    if len(draws) != 1:
        raise ValueError(f"importances of units and neurons have different numbers of draws: {sorted(draws)}")
    return [
        replace(paths[draw % len(paths)], neurons={name: layer[draw] for name, layer in layers.items()})
        for draw in range(draws.pop())
    ]


def _greedy(score: Callable[[View], Tensor | Importance], view: View, schedule: Schedule) -> Trajectory:
    """Score again after every ``plan.recompute`` units, on a copy of the model from which they are removed.

    Units that must stay come last, by index. They are never scored without units that may go.
    """
    order: list[Tensor] = []
    rows: list[Tensor] = []
    units = torch.arange(len(view.heads))  # indices in the whole model of the units left
    now = replace(view, model=working_copy(view.model), memory={})
    keep, ties = view.kept, 0
    while True:
        units = units[keep]
        if not len(view.heads.part_removable(units)[0]):  # those left stay: without them there is no model to score
            return Trajectory(torch.cat([*order, units]), scores=torch.stack(rows) if rows else None, ties=ties)
        if not keep.all():
            heads = shrink(now.model, keep, now.heads)
            now = replace(now, heads=heads, kept=heads.full_mask())
        scores = score(now)
        if isinstance(scores, Importance):
            raise OptionError("a greedy schedule removes heads only, this method ranks neurons too: use recompute=0")
        draws = _scaled(_checked(scores, now, [view.heads.name(unit) for unit in units.tolist()]), now, schedule)
        if len(draws) > 1:
            raise OptionError(f"a greedy schedule needs one draw, importances of shape (units,), not {len(draws)}")
        rows.append(torch.full((len(view.heads),), torch.nan, dtype=torch.float64).index_copy(0, units, draws[0]))
        ranked = _order(draws[0], now, schedule)
        next_removed = ranked[: min(schedule.recompute, now.heads.removable)]
        ties += _ties(ranked, draws[0], now, schedule, len(next_removed))
        order.append(units[next_removed])
        keep = torch.ones(len(units), dtype=torch.bool)
        keep[next_removed] = False


def _neuron_orders(mlp: Mlp, scores: Tensor, schedule: Schedule) -> Tensor:
    """Removal orders of a layer's neurons, (draws, width)."""
    _check_real(scores, f"the importance of neurons of {mlp.name}", f"({mlp.width},)")
    if scores.dim() not in (1, 2) or 0 in scores.shape or scores.shape[-1] != mlp.width:
        shape = tuple(scores.shape)
        raise ValueError(f"importance of neurons of {mlp.name} of shape {shape}, expected ({mlp.width},)")
    scores = scores.detach().double().cpu().reshape(-1, scores.shape[-1])
    if not scores.isfinite().all():
        neuron = int((~scores.isfinite()).nonzero()[0, 1])
        raise NonFiniteScore(f"importance {scores[:, neuron].tolist()} for neuron {neuron} of {mlp.name}")
    return (scores * (-1 if schedule.inverse else 1)).argsort(dim=1, stable=True)


def _checked(scores: Tensor, view: View, names: list[str]) -> Tensor:
    """``scores`` as (draws, units) float64 on the CPU. ``names``: of the units, for messages.

    Raises NonFiniteScore for units not removed yet, ValueError for a wrong type or shape.
    """
    units = len(view.heads)
    _check_real(scores, "the importance", f"({units},)")
    if scores.dim() not in (1, 2) or 0 in scores.shape or scores.shape[-1] != units:
        raise ValueError(f"importance of shape {tuple(scores.shape)}, expected ({units},): one entry per unit")
    draws = scores.detach().double().cpu().reshape(-1, units)
    bad = (~draws.isfinite() & view.kept).nonzero().tolist()
    if bad:
        draw, unit = bad[0]
        value = draws[draw, unit].item()
        raise NonFiniteScore(f"importance {value} for {names[unit]} ({len(bad)} such)")
    return draws


def _scaled(scores: Tensor, view: View, schedule: Schedule) -> Tensor:
    """``scores``, (draws, units), as ``schedule`` ranks them: divided by the norm of their layer, or as they are."""
    if not schedule.normed:
        return scores
    site = view.heads.site_of_unit
    squares = torch.zeros(len(scores), len(view.heads.sites), dtype=torch.float64)
    squares.index_add_(1, site, torch.where(view.kept, scores.square(), 0.0))
    return scores / squares.sqrt().clamp_min(torch.finfo(torch.float64).tiny)[:, site]


def _check_real(scores: object, what: str, shape: str) -> None:
    """Raise ValueError unless ``scores`` is a tensor of real numbers."""
    if not isinstance(scores, Tensor):
        raise ValueError(f"{what} is a {type(scores).__name__}, expected a tensor of shape {shape}")
    if scores.is_complex():
        raise ValueError(f"{what} is of {scores.dtype}, expected real numbers")


def _order(scores: Tensor, view: View, schedule: Schedule) -> Tensor:
    """Indices of the units of ``view.kept`` in the order in which ``schedule`` removes them; ties by index.

    Last are those that stay because their site cannot run without any head: the last unit of each.
    """
    units = view.kept.nonzero().flatten()
    ranked = units[(scores[units] * (-1 if schedule.inverse else 1)).argsort(stable=True)]
    if schedule.allocation == "layer":
        # To take equally from all sites, always take from the one with the most units left.
        ranked = ranked[_left(ranked, view).argsort(descending=True, stable=True)]
    return torch.cat(view.heads.part_removable(ranked))


def _left(order: Tensor, view: View) -> Tensor:
    """Units of the same site from each unit of ``order`` on, itself included: (units of ``order``,)."""
    sites = view.heads.site_of_unit[order]
    return torch.stack([(sites[i:] == site).sum() for i, site in enumerate(sites)])


def _ties(order: Tensor, scores: Tensor, view: View, schedule: Schedule, removed: int) -> int:
    """How many of the first ``removed`` units of ``order`` went before another only because their index is lower.

    Under the allocation by layer, the other one must be of the same site, or of one that has as many units left.
    """
    if not len(order):
        return 0
    tied = scores[order][:, None] == scores[order]  # (units, units): the one removed, another
    if schedule.allocation == "layer":
        sites, left = view.heads.site_of_unit[order], _left(order, view)
        tied &= (sites[:, None] == sites) | (left[:, None] == left)
    return int(tied.triu(1).any(1)[:removed].sum())
