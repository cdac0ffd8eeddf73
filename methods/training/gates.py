"""Training gates on the heads, alone or together with the model's weights: what Voita, DSP and STE share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from methods.contract.view import View
from methods.heads import gated
from methods.training.loop import Stepper, descend, training_of, widen


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
    widen(weights)
    like = next(model.parameters())  # device and dtype of the gates
    steppers: list[Stepper] = []
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
        descend(
            view,
            model,
            [weights] if parameter is None else [weights, [parameter]],
            steppers,
            what="gates" if learning_rate else "weights",
            learning_rate=learning_rate,
            before=lambda step: put(gates(step).to(like)),
            penalty=penalty,
        )
    for weight, dtype in zip(weights, dtypes, strict=True):
        weight.data = weight.data.to(dtype)
    return model.eval().requires_grad_(False)
