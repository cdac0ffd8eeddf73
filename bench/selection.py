"""Ask a method which units to keep, at each number removed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from methods import Method, View
from methods.heads import HeadMap
from methods.schedule import Schedule, mask_without, removal_orders
from tasks.contract import Task


class MethodError(RuntimeError):
    """A method met an error of the system, such as a missing file of its own."""


@dataclass(frozen=True)
class Selection:
    """What a method chose: ``masks`` (draws, levels, units) bool, and the removal orders behind them if it has any."""

    masks: Tensor
    orders: list[list[int]] | None


def view_of(task: Task, model: nn.Module, seed: int, calibration: int, device: torch.device) -> View:
    """What a method sees of ``task`` and ``model`` under ``seed``; the global generator starts from the seed too."""
    torch.manual_seed(seed)  # for methods that draw from it, as dropout does
    heads = HeadMap.of(model)
    return View(
        model=model,
        heads=heads,
        batches=task.calibration(seed, calibration, device),
        kept=heads.full_mask(),
        generator=torch.Generator().manual_seed(seed),
        forward=task.logits,
        loss_of_logits=task.loss,
    )


def select(method: Method, options: dict[str, Any], view: View, removed: Sequence[int]) -> Selection:
    """Masks of ``method`` with ``removed`` units gone.

    Raises NonFiniteScore; ValueError for a wrong mask; whatever the method raises, but no OSError: that would read as
    one of the run's own, such as a full disk.
    """
    try:
        return _select(method, options, view, removed)
    except OSError as error:
        raise MethodError(f"{type(error).__name__}: {error}") from error


def _select(method: Method, options: dict[str, Any], view: View, removed: Sequence[int]) -> Selection:
    if method.shape == "selector":
        masks = [method.function(view, len(view.heads) - count, **options) for count in removed]
        for count, mask in zip(removed, masks, strict=True):
            if mask.shape != (len(view.heads),) or mask.dtype != torch.bool:
                raise ValueError(
                    f"mask of shape {tuple(mask.shape)} and {mask.dtype}, expected ({len(view.heads)},) bool"
                )
            if int(mask.sum()) != len(mask) - count and not method.control:
                raise ValueError(f"mask keeps {int(mask.sum())} units, the budget is {len(mask) - count}")
        return Selection(torch.stack(masks)[None], None)
    fields = {field.name for field in dataclasses.fields(Schedule)}
    schedule = Schedule(**{name: value for name, value in options.items() if name in fields})
    own = {name: value for name, value in options.items() if name not in fields}
    orders = removal_orders(partial(method.function, **own), view, schedule)
    masks = [torch.stack([mask_without(order, count) for count in removed]) for order in orders]
    return Selection(torch.stack(masks), [order.tolist() for order in orders])
