"""Training gates on the heads, alone or together with the model's weights: the loop that Voita, DSP and STE share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from methods.heads import gated
from methods.view import Training, View

HALVES = (torch.bfloat16, torch.float16)


def training_of(view: View) -> Training:
    """What the view has to train on. Raises ValueError where it has nothing."""
    if view.training is None:
        raise ValueError("this method trains, and the view has no training examples")
    return view.training


@dataclass(frozen=True)
class Seeds:
    """Where each training of one call begins its random draws, so that what it finds depends on no other training."""

    gates: int
    dropout: int

    @classmethod
    def draw(cls, view: View) -> Seeds:
        """New seeds from the generator of the view."""
        return cls(*torch.randint(2**62, (2,), generator=view.generator).tolist())

    def noise(self) -> torch.Generator:
        """The gates' own generator, at its beginning."""
        return torch.Generator().manual_seed(self.gates)


def train_gates(
    view: View,
    parameter: Tensor | None,
    gates: Callable[[int], Tensor],
    *,
    learning_rate: float,
    frozen: bool,
    seeds: Seeds,
    penalty: Callable[[], Tensor] | None = None,
) -> nn.Module:
    """Train ``parameter`` in place and, unless ``frozen``, the weights of a copy of the model. Returns the copy.

    The loss is the mean task loss of a batch, with ``gates(step)`` on the heads, plus ``penalty()``. Weights are
    trained as the task trains them, in float32 if the model is in half precision, and rounded at the end. ``parameter``
    is trained by Adam with a learning rate that falls linearly to zero. Its gradient is clipped apart from that of the
    weights: annealed gates now and then have one that would leave nothing of it.

    parameter: (units,), float64 on the CPU, requires grad; only the gates go to the model's device. None where the
        gates are fixed.
    gates: (units,) for a step, counted from 0.
    The copy comes back in evaluation mode and frozen; the model of the view and the random state stay as they were.
    Raises FloatingPointError where the loss is not finite.
    """
    training = training_of(view)
    model = copy.deepcopy(view.model).train().requires_grad_(not frozen)
    model.zero_grad()
    weights = [] if frozen else list(model.parameters())
    dtypes = [weight.dtype for weight in weights]
    for weight in weights:
        weight.data = weight.data.float() if weight.dtype in HALVES else weight.data
    like = next(model.parameters())  # device and dtype of the gates
    steppers: list[Any] = []
    if parameter is not None:
        adam = torch.optim.Adam([parameter], lr=learning_rate)
        steppers += [adam, LambdaLR(adam, lambda step: 1 - step / training.steps)]
    if not frozen:
        steppers += training.optimizer(model)
    with (
        torch.random.fork_rng([like.device] if like.device.type == "cuda" else []),
        torch.enable_grad(),
        gated(model, torch.ones(len(view.heads)), view.heads) as put,
    ):
        torch.manual_seed(seeds.dropout)
        for step, batch in enumerate(islice(training.batches(), training.steps)):
            put(gates(step).to(like))
            loss = view.loss_of_logits(view.forward(model, batch), batch).mean()
            if penalty is not None:
                loss = loss + penalty().to(loss)
            if not loss.isfinite():
                raise FloatingPointError(
                    f"loss is {loss.item()} at step {step + 1} of {training.steps} of training gates: "
                    f"try a learning_rate below {learning_rate}"
                )
            loss.backward()
            nn.utils.clip_grad_norm_(weights, training.clip)
            if parameter is not None:
                nn.utils.clip_grad_norm_(parameter, training.clip)
            for stepper in steppers:
                stepper.step()
            if parameter is not None:
                parameter.grad = None
            model.zero_grad()
    for weight, dtype in zip(weights, dtypes, strict=True):
        weight.data = weight.data.to(dtype)
    return model.eval().requires_grad_(False)
