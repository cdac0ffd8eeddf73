"""Ask a method what to keep, at each number of units removed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from methods import Method, View
from methods.contract.choice import Choice
from methods.contract.schedule import NonFiniteScore, Schedule, Trajectory, trajectories


class MethodError(RuntimeError):
    """A method met an error of the system, such as a missing file of its own."""


@dataclass(frozen=True)
class Selection:
    """What a method chose.

    choices: at each draw and level. trajectories: those behind the choices of a scorer, one a draw.
    reports: what a joint method says of its training, by number of units removed.
    """

    choices: list[list[Choice]]
    trajectories: list[Trajectory] = field(default_factory=list)
    reports: Mapping[int, Mapping[str, float]] = field(default_factory=dict)

    @property
    def masks(self) -> Tensor:
        """Units kept, (draws, levels, units) bool."""
        return torch.stack([torch.stack([choice.mask for choice in draw]) for draw in self.choices])

    @property
    def orders(self) -> list[list[int]] | None:
        """Removal order of the units, one a draw; None where there is none."""
        orders = [path.order.tolist() for path in self.trajectories if path.order is not None]
        return orders or None


def select(
    method: Method,
    options: dict[str, Any],
    view: View,
    removed: Sequence[int],
    arrived: Callable[[int, Choice], Choice] = lambda count, choice: choice,
) -> Selection:
    """Choices of ``method`` with ``removed`` units gone.

    arrived: called with each choice of a joint method, and the number of units it removes, as soon as it is made, and
        gives what to keep of it: all of them may be too much to hold.

    Raises NonFiniteScore, which names the method and the head; ValueError for a wrong mask; whatever the method raises,
    but no OSError: that would read as one of the run's own, such as a full disk.
    """
    shapes: dict[str, Callable[..., Selection]]
    shapes = {"scorer": _score, "selector": _select, "joint": partial(_train, arrived=arrived)}
    try:
        return shapes[method.shape](method, options, view, removed)
    except NonFiniteScore as error:
        raise NonFiniteScore(f"method {method.name}: {error}") from error
    except OSError as error:
        raise MethodError(f"{type(error).__name__}: {error}") from error


def _score(method: Method, options: dict[str, Any], view: View, removed: Sequence[int]) -> Selection:
    fields = {field.name for field in dataclasses.fields(Schedule)}
    schedule = Schedule(**{name: value for name, value in options.items() if name in fields})
    own = {name: value for name, value in options.items() if name not in fields}
    found = trajectories(partial(method.function, **own), view, schedule)
    units = len(view.heads)
    choices = [
        [
            Choice(view.model, view.heads, path.units_kept(count, units), path.neurons_kept(count, units))
            for count in removed
        ]
        for path in found
    ]
    return Selection(choices, found)


def _select(method: Method, options: dict[str, Any], view: View, removed: Sequence[int]) -> Selection:
    masks = []
    for count in removed:
        mask = method.function(view, len(view.heads) - count, **options)
        masks.append(_checked(mask, view, None if method.control else count))
    return Selection([[Choice(view.model, view.heads, mask) for mask in masks]])


def _train(
    method: Method,
    options: dict[str, Any],
    view: View,
    removed: Sequence[int],
    arrived: Callable[[int, Choice], Choice],
) -> Selection:
    units = len(view.heads)
    budgets = [units - count for count in removed if count]  # with nothing removed it is the model as it was
    trained = iter(method.function(view, budgets, **options))
    choices: list[Choice] = []
    reports: dict[int, Mapping[str, float]] = {}
    for count in removed:
        choice = Choice(view.model, view.heads, view.heads.full_mask())
        if count:
            result = next(trained, None)
            if result is None:
                raise ValueError(f"gave results for {len(reports)} of {len(budgets)} budgets")
            alone = result.neurons is not None and bool(result.mask.all())  # neurons go, and no head
            mask = _checked(result.mask, view, None if alone else count)
            choice = Choice(result.model, view.heads, mask, result.neurons)
            reports[count] = dict(result.report)
        choices.append(arrived(count, choice))
    return Selection([choices], reports=reports)


def _checked(mask: Tensor, view: View, removed: int | None) -> Tensor:
    """``mask`` on the CPU. Raises ValueError for another shape or dtype, or unless ``removed`` units are gone."""
    units = len(view.heads)
    if not isinstance(mask, Tensor):
        raise ValueError(f"mask is a {type(mask).__name__}, expected a bool tensor of shape ({units},)")
    if mask.shape != (units,) or mask.dtype != torch.bool:
        raise ValueError(f"mask of shape {tuple(mask.shape)} and {mask.dtype}, expected ({units},) bool")
    if removed is not None and int(mask.sum()) != units - removed:
        raise ValueError(f"mask keeps {int(mask.sum())} units, the budget is {units - removed}")
    return mask.cpu()
