"""What a method sees: a model, calibration batches and a loss, but not the task, nor its validation or test split."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from methods.heads import HeadMap


class Batch(Protocol):
    """Examples as tensors, padded to the longest."""

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Arguments of the model by name, such as input_ids and attention_mask, (B, T) each."""

    @property
    def labels(self) -> Tensor:
        """Class of each example, (B,) int64; 0 of all where the task has no classes."""


class Training(Protocol):
    """The training split, and how the task trains its own model."""

    @property
    def steps(self) -> int:
        """Steps that a method may take per budget: a share of the most that the task's own training takes."""

    @property
    def epoch_steps(self) -> int:
        """Steps of one pass over the training split."""

    @property
    def clip(self) -> float:
        """Largest norm of the gradient of all weights together, to clip at."""

    def batches(self) -> Iterator[Batch]:
        """Endless batches of shuffled training examples, the same at each call."""

    def in_batches_of(self, size: int) -> Training:
        """As many epochs in batches of ``size`` examples, in more steps or fewer."""

    def optimizer(self, model: nn.Module) -> tuple[Optimizer, LRScheduler]:
        """The task's own optimizer for the weights of ``model``, with its schedule over ``steps``."""

    def with_steps(self, steps: int) -> Training:
        """The same training with another number of steps, 1 or more."""

    def initial_weights(self) -> Mapping[str, Tensor]:
        """The weights that the task's own training of the model starts from, as a state dict of the view's model.

        Those of the pretrained model with the head of the seed, or of the untrained model if there is none pretrained.
        Raises ValueError if the task takes its model as it is.
        """


@dataclass(frozen=True)
class View:
    """The model as it is now, and what a method may use to score its heads.

    model: in evaluation mode, with frozen weights. Heads pruned so far are removed, or gated to zero by the caller.
    heads: the map of its units.
    batches: the calibration set.
    kept: (units,) bool, the units of ``heads`` not pruned yet; scores of the others are ignored.
    generator: source of all random draws of the method, on the CPU; at first the same for all methods.
    forward: the logits of a model for a batch.
    loss_of_logits: the task loss of each example, (B,), from logits and their batch.
    training: the training split, for joint methods; None for others.
    memory: a dict in which a scorer may store what saves work at the next step of a greedy schedule, None for others.
        From step to step, model and batches are the same objects, and nothing changes but that heads are removed.
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

    def generator_for(self, purpose: str) -> torch.Generator:
        """A new generator on the CPU for draws that must not be those of other methods under the same seed."""
        seed = hashlib.sha256(f"{self.generator.initial_seed()} {purpose}".encode()).digest()[:8]
        return torch.Generator().manual_seed(int.from_bytes(seed))

    @property
    def examples(self) -> int:
        """Number of calibration examples."""
        return sum(len(batch.labels) for batch in self.batches)

    def logits(self, batch: Batch) -> Tensor:
        """Logits of the model for ``batch``: (B, classes), of a language model (B, T, vocabulary)."""
        return self.forward(self.model, batch)

    def loss(self, batch: Batch) -> Tensor:
        """Task loss of each example of ``batch``, (B,)."""
        return self.loss_of_logits(self.logits(batch), batch)

    def per_unit(self, site: int, heads: Tensor) -> Tensor:
        """Mean over the heads of each unit: from (heads of the site, ...) to (units of the site, ...)."""
        unit = self.heads.unit_of_head(site).to(heads.device)
        unit = unit - unit.min() if len(unit) else unit
        totals = heads.new_zeros(self.heads.shape[site], *heads.shape[1:]).index_add_(0, unit, heads)
        return totals * (self.heads.shape[site] / max(1, len(unit)))  # all units of a site have equally many heads
