"""The loop in which a method trains what it will, on the batches of the view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

import torch
from torch import Tensor, nn

from methods.contract.view import Training, View

HALVES = (torch.bfloat16, torch.float16)


class Stepper(Protocol):
    """An optimizer, or a schedule of its learning rate."""

    def step(self) -> object: ...


def training_of(view: View) -> Training:
    """What the view has to train on. Raises ValueError where it has nothing."""
    if view.training is None:
        raise ValueError("this method trains, and the view has no training examples")
    return view.training


def widen(weights: Sequence[Tensor]) -> None:
    """Turn ``weights`` in half precision into float32, in place: small steps would be lost in them."""
    for weight in weights:
        weight.data = weight.data.float() if weight.dtype in HALVES else weight.data


def descend(
    view: View,
    model: nn.Module,
    groups: Sequence[Sequence[Tensor]],
    steppers: Sequence[Stepper],
    *,
    what: str,
    learning_rate: float,
    before: Callable[[int], None] = lambda step: None,
    penalty: Callable[[], Tensor] | None = None,
) -> None:
    """Take all steps of the view's training with ``model``, on the mean task loss of a batch, plus ``penalty()``.

    groups: what is trained; the gradient of each group is clipped apart from the others. steppers: of what is trained,
    in the order in which they step. before: called with each step, counted from 0. what, learning_rate: for complaints;
    0 where the rate is none of the method's options.

    Raises FloatingPointError where the loss is not finite.
    """
    training = training_of(view)
    for step, batch in enumerate(islice(training.batches(), training.steps)):
        before(step)
        loss = view.loss_of_logits(view.forward(model, batch), batch).mean()
        if penalty is not None:
            loss = loss + penalty().to(loss)
        if not loss.isfinite():
            advice = f": try a learning_rate below {learning_rate}" if learning_rate else ""
            raise FloatingPointError(
                f"loss is {loss.item()} at step {step + 1} of {training.steps} of training {what}{advice}"
            )
        loss.backward()
        for group in groups:
            nn.utils.clip_grad_norm_(group, training.clip)
        for stepper in steppers:
            stepper.step()
        for group in groups:
            for trained in group:
                trained.grad = None
