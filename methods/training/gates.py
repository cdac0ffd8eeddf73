"""Train gates on units, alone or together with the weights of the model: shared by Voita, DSP and STE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from methods.contract.view import View
from methods.heads import gated
from methods.training.loop import Stepper, to_float32, train, training_copy, training_of


@dataclass(frozen=True)
class Seeds:
    """Seeds that all trainings of one call start from, so that their results do not depend on each other."""

    gates: int
    dropout: int

    @classmethod
    def draw(cls, view: View) -> Seeds:
        """Draw seeds from the view's generator."""
        return cls(*torch.randint(2**62, (2,), generator=view.generator).tolist())

    def noise(self) -> torch.Generator:
        """A new generator for the gates' noise."""
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

    The loss is the mean task loss of a batch with ``gates(step)`` on the units, plus ``penalty()``. Weights are trained
    as the task trains them; those in half precision are trained in float32 and rounded at the end. ``parameter`` is
    trained with Adam at a learning rate that falls linearly to zero. Its gradient is clipped separately, as annealed
    gates can have gradients so large that clipping would reduce those of the weights to nothing.

    parameter: (units,) float64 on the CPU, requires grad; None for fixed gates. Only gates move to the model's device.
    gates: given a step, from 0, returns (units,).
    The copy is frozen and in evaluation mode.

    Raises FloatingPointError if the loss is not finite.
    """
    training = training_of(view)
    steppers: list[Stepper] = []
    if parameter is not None:
        adam = torch.optim.Adam([parameter], lr=learning_rate)
        steppers += [adam, LambdaLR(adam, lambda step: 1 - step / training.steps)]
    with (
        training_copy(view, seeds.dropout) as model,
        gated(model, torch.ones(len(view.heads)), view.heads) as set_gates,
    ):
        model.requires_grad_(not frozen)
        weights = [] if frozen else list(model.parameters())
        dtypes = [weight.dtype for weight in weights]
        to_float32(weights)
        like = next(model.parameters())  # device and dtype of the gates
        if not frozen:
            steppers += training.optimizer(model)
        train(
            view,
            model,
            [weights] if parameter is None else [weights, [parameter]],
            steppers,
            what="gates" if learning_rate else "weights",
            learning_rate=learning_rate,
            before_step=lambda step: set_gates(gates(step).to(like)),
            penalty=penalty,
        )
        for weight, dtype in zip(weights, dtypes, strict=True):
            weight.data = weight.data.to(dtype)
    return model
