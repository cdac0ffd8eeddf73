"""Ask a method of any shape what to keep, at each number of units removed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from methods.contract.choice import Choice
from methods.contract.method import RECOVER, Method
from methods.contract.registry import Trained
from methods.contract.schedule import NonFiniteScore, Schedule, Trajectory, trajectories
from methods.contract.side_effects import count_hooks
from methods.contract.view import View
from methods.heads import find_mlps


class MethodError(RuntimeError):
    """A method met an error of the system, such as a missing file of its own."""


@dataclass(frozen=True)
class Draw:
    """What a method chose, of which a method that is random by nature makes several.

    choices: pairs of the number of units to remove and what is kept then, one for each number asked for, in that order;
        those of a joint method are trained when they are asked for. They can be read once.
    nested: each choice keeps part of what the one before keeps, of the same weights, and all neurons.
    trajectory: what a scorer's choices come from; None for other methods.
    """

    choices: Iterator[tuple[int, Choice]]
    nested: bool = False
    trajectory: Trajectory | None = None


@dataclass(frozen=True)
class Selection:
    """All that a method chose. choices: (draws, numbers of units removed). trajectories: of a scorer, one per draw."""

    choices: list[list[Choice]]
    trajectories: list[Trajectory]

    @classmethod
    def of(cls, draws: Iterable[Draw]) -> Selection:
        """All choices of ``draws``, which have not been read yet. Raises what making a choice raises."""
        read = [(draw, [choice for _, choice in draw.choices]) for draw in draws]
        trajectories = [draw.trajectory for draw, _ in read if draw.trajectory is not None]
        return cls([choices for _, choices in read], trajectories)

    @property
    def masks(self) -> Tensor:
        """Units kept, (draws, numbers of units removed, units) bool."""
        return torch.stack([torch.stack([choice.mask for choice in draw]) for draw in self.choices])

    @property
    def orders(self) -> list[list[int]] | None:
        """Removal order of the units, one per draw; None where there is none."""
        return [path.order.tolist() for path in self.trajectories if path.order is not None] or None


def choose(method: Method, options: Mapping[str, Any], view: View, removed: Sequence[int]) -> Iterator[Draw]:
    """The choices of ``method`` with ``removed`` units gone (ascending): draw by draw, and one by one within each.

    Raises NonFiniteScore, which names the method and the head; ValueError for a wrong mask, or for options by which
    weights are recovered or neurons removed; whatever the method raises, but no OSError: that would read as an error of
    the run itself, such as a full disk.
    """
    if RECOVER.name in options or method.splits_budget(options):
        raise ValueError(f"{method.label(options)}: use methods.recovery.choosing, which recovers weights too")
    if (most := max(removed, default=0)) > view.heads.removable:
        raise ValueError(
            f"{most} units cannot be removed: {view.heads.removable} of {len(view.heads)} can, as "
            f"{len(view.heads.never_empty)} attention modules cannot run without any head"
        )
    shapes = {"scorer": _by_score, "selector": _by_masks, "joint": _by_training}
    with _as_errors_of(method):
        for draw in shapes[method.shape](method, options, view, removed):
            yield dataclasses.replace(draw, choices=_named(method, draw.choices))


def select(method: Method, options: Mapping[str, Any], view: View, removed: Sequence[int]) -> Selection:
    """All choices of ``choose``. Raises as that does."""
    return Selection.of(choose(method, options, view, removed))


def _by_score(method: Method, options: Mapping[str, Any], view: View, removed: Sequence[int]) -> Iterator[Draw]:
    fields = {field.name for field in dataclasses.fields(Schedule)}
    schedule = Schedule(**{name: value for name, value in options.items() if name in fields})
    own = {name: value for name, value in options.items() if name not in fields}
    for path in trajectories(partial(method.function, **own), view, schedule):
        choices = ((count, choice_on(path, view, count)) for count in removed)
        yield Draw(choices, nested=path.neurons is None, trajectory=path)


def choice_on(path: Trajectory, view: View, removed: int) -> Choice:
    """What is kept when the first ``removed`` units of a trajectory are gone."""
    units = len(view.heads)
    return Choice(view.model, view.heads, path.units_kept(removed, units), path.neurons_kept(removed, units))


def _by_masks(method: Method, options: Mapping[str, Any], view: View, removed: Sequence[int]) -> Iterator[Draw]:
    masks = []
    for count in removed:
        mask = method.function(view, len(view.heads) - count, **options)
        masks.append(_checked(mask, view, None if method.control else count))
    nested = not any(bool((after & ~before).any()) for before, after in pairwise(masks))
    choices = ((count, Choice(view.model, view.heads, mask)) for count, mask in zip(removed, masks, strict=True))
    yield Draw(choices, nested)


def _by_training(method: Method, options: Mapping[str, Any], view: View, removed: Sequence[int]) -> Iterator[Draw]:
    yield Draw(_trained(method, options, view, removed))


def _trained(
    method: Method, options: Mapping[str, Any], view: View, removed: Sequence[int]
) -> Iterator[tuple[int, Choice]]:
    units = len(view.heads)
    budgets = [units - count for count in removed if count]  # with nothing removed it is the model as it was
    results = method.function(view, budgets, **options)
    if not isinstance(results, Iterable):
        raise ValueError(f"returned {_a(results)}, expected an iterator of Trained, one for each budget")
    trained, hooks = iter(results), count_hooks(view.model)
    given = 0
    for count in removed:
        if not count:
            yield count, Choice(view.model, view.heads, view.heads.full_mask())
            continue
        result = next(trained, None)
        if result is None:
            raise ValueError(f"gave results for {given} of {len(budgets)} budgets")
        given += 1
        _check_ready(result, view, hooks)
        only_neurons = result.neurons is not None and bool(result.mask.all())
        mask = _checked(result.mask, view, None if only_neurons else count)
        neurons = None if result.neurons is None else checked_neurons(result.neurons, result.model)
        choice = Choice(result.model, view.heads, mask, neurons, dict(result.report), result.trace)
        del result
        yield count, choice
        del choice  # whoever asked has had it: two trained models need not be held while a third is trained
    if budgets and next(trained, None) is not None:
        raise ValueError(f"gave more results than the {len(budgets)} budgets")


def _check_ready(result: object, view: View, hooks: Mapping[str, int]) -> None:
    """Raise ValueError unless a joint method gave a Trained whose model and report can be used.

    The model is the whole one, ready to be evaluated, with no more than its ``hooks``; the report holds finite numbers.
    """
    if not isinstance(result, Trained):
        raise ValueError(f"gave {_a(result)}, expected a Trained for each budget")
    view.heads.check_model(result.model)
    if left := [name for name, number in count_hooks(result.model).items() if number > hooks.get(name, 0)]:
        raise ValueError(f"gave a model with {left[0]}: what is left from training has to be removed")
    if any(module.training for module in result.model.modules()):
        raise ValueError("gave a model in training mode: call its eval()")
    if wrong := [name for name, value in result.report.items() if not math.isfinite(value)]:
        raise ValueError(f"reported {wrong[0]} = {result.report[wrong[0]]}, expected a finite number")


def _a(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _checked(mask: Tensor, view: View, removed: int | None) -> Tensor:
    """A copy of ``mask`` on the CPU, as a method may go on with its own.

    Raises ValueError for a wrong shape or dtype, for another number of units gone than ``removed`` (None for any), and
    for a site without a unit that cannot run without any head.
    """
    units = len(view.heads)
    if not isinstance(mask, Tensor):
        raise ValueError(f"mask is a {type(mask).__name__}, expected a bool tensor of shape ({units},)")
    if mask.shape != (units,) or mask.dtype != torch.bool:
        raise ValueError(f"mask of shape {tuple(mask.shape)} and {mask.dtype}, expected ({units},) bool")
    if removed is not None and int(mask.sum()) != units - removed:
        raise ValueError(f"mask keeps {int(mask.sum())} units, the budget is {units - removed}")
    view.heads.check_never_empty(mask.cpu())
    return mask.cpu().clone()


def checked_neurons(neurons: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """A copy of the masks of neurons, by feed-forward layer, on the CPU.

    Raises ValueError for a layer that ``model`` does not have, and for a mask of a wrong shape or dtype.
    """
    widths = {mlp.name: mlp.width for mlp in find_mlps(model)}
    for name, mask in neurons.items():
        if name not in widths:
            raise ValueError(f"neurons of {name}, which is no feed-forward layer; expected {', '.join(widths)}")
        if not isinstance(mask, Tensor) or mask.shape != (widths[name],) or mask.dtype != torch.bool:
            found = f"{tuple(mask.shape)} {mask.dtype}" if isinstance(mask, Tensor) else _a(mask)
            raise ValueError(f"neurons of {name}: {found}, expected ({widths[name]},) bool")
    return {name: mask.cpu().clone() for name, mask in neurons.items()}


def _named(method: Method, choices: Iterator[tuple[int, Choice]]) -> Iterator[tuple[int, Choice]]:
    with _as_errors_of(method):
        yield from choices


@contextmanager
def _as_errors_of(method: Method) -> Iterator[None]:
    try:
        yield
    except NonFiniteScore as error:
        raise NonFiniteScore(f"method {method.name}: {error}") from error
    except OSError as error:
        raise MethodError(f"{type(error).__name__}: {error}") from error
