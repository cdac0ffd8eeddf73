"""What a method sees: a model, calibration batches and a loss; never the task, the validation or the test split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from methods.heads import HeadMap


class Batch(Protocol):
    """Some examples as tensors, padded to the longest of them."""

    @property
    def inputs(self) -> dict[str, Tensor]:
        """input_ids, attention_mask and the like, (B, T) each."""

    @property
    def labels(self) -> Tensor:
        """Index of each example's class, (B,)."""


class Training(Protocol):
    """What gates or weights may be trained on, and how the task itself trains its model."""

    @property
    def steps(self) -> int:
        """Steps that a method may take for one budget: a share of the most that the task's own training takes."""

    @property
    def clip(self) -> float:
        """Largest norm of the gradient of all weights together."""

    def batches(self) -> Iterator[Batch]:
        """Batches of shuffled training examples, without end; the same ones at each call."""

    def optimizer(self, model: nn.Module) -> tuple[Optimizer, LRScheduler]:
        """The task's own optimizer for the weights of ``model``, with its schedule over ``steps``."""


@dataclass(frozen=True)
class View:
    """The model as it is now, and what may be used to score its heads.

    model: in evaluation mode, weights frozen; heads removed so far are gone from it, or gated to zero by the caller.
    heads: the map of its units.
    batches: the calibration set.
    kept: (units,) bool, the units of ``heads`` not removed yet; scores of the others are ignored.
    generator: the source of all the method's random draws, on the CPU.
    training: the training split, for joint methods; None for all others.
    memory: None, or under a greedy schedule a dict in which a scorer may leave what spares it work at the next step.
        From step to step model and batches are the same objects, and nothing changes in the model but that heads go.
    """

    model: nn.Module
    heads: HeadMap
    batches: Sequence[Batch]
    kept: Tensor
    generator: torch.Generator
    forward: Callable[[nn.Module, Any], Tensor]
    loss_of_logits: Callable[[Tensor, Any], Tensor]
    training: Training | None = None
    memory: dict[Any, Any] | None = None

    @property
    def examples(self) -> int:
        """Number of calibration examples."""
        return sum(len(batch.labels) for batch in self.batches)

    def logits(self, batch: Batch) -> Tensor:
        """Logits of the model for ``batch``, shape (B, classes)."""
        return self.forward(self.model, batch)

    def loss(self, batch: Batch) -> Tensor:
        """Task loss of each example of ``batch``, shape (B,)."""
        return self.loss_of_logits(self.logits(batch), batch)

    def per_unit(self, site: int, heads: Tensor) -> Tensor:
        """Mean over the heads of each unit of ``site``: (heads of the site, ...) to (units of the site, ...)."""
        unit = self.heads.unit_of_head(site).to(heads.device)
        unit = unit - unit.min() if len(unit) else unit
        totals = heads.new_zeros(self.heads.shape[site], *heads.shape[1:]).index_add_(0, unit, heads)
        return totals * (self.heads.shape[site] / max(1, len(unit)))  # units of one site have equally many heads
