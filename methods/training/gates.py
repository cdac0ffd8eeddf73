"""Train gates on units, alone or together with the weights of the model: shared by Voita, DSP and STE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from methods.contract.trace import Trace
from methods.contract.view import View
from methods.heads import gated
from methods.training.loop import Stepper, to_dtypes, to_float32, train, training_copy, training_of


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


class LearningSteps:
    """Counts the steps at which a parameter still learns.

    Those are the steps whose own gradient is, for some entry, at least a tenth of the root mean square of its gradients
    so far, by which Adam divides (with its moving average in place of the mean). Below that, Adam moves the parameter
    by what earlier steps have left in its momentum.
    """

    SHARE, DECAY = 0.1, 0.999  # of Adam's second moment

    def __init__(self, parameter: Tensor):
        self.parameter, self.count = parameter, 0
        self._squares, self._weight = torch.zeros_like(parameter, requires_grad=False), 0.0

    def step(self) -> None:
        """Look at the gradient of one step, after clipping."""
        gradient = self.parameter.grad
        squares = torch.zeros_like(self._squares) if gradient is None else gradient.square()
        self._squares.lerp_(squares, 1 - self.DECAY)
        self._weight += (1 - self.DECAY) * (1 - self._weight)
        self.count += bool((squares > self.SHARE**2 * self._squares / self._weight).any())


def train_gates(
    view: View,
    parameter: Tensor,
    gates: Callable[[int], Tensor],
    *,
    learning_rate: float,
    frozen: bool,
    seeds: Seeds,
    penalty: Callable[[], Tensor] | None = None,
    before_update: Stepper | None = None,
) -> tuple[nn.Module, Trace]:
    """Train ``parameter`` in place and, unless ``frozen``, the weights of a copy of the model.

    Returns the copy, and the trace of the training.

    The loss is the mean task loss of a batch with ``gates(step)`` on the units, plus ``penalty()``. Weights are trained
    as the task trains them; those in half precision are trained in float32 and rounded at the end. ``parameter`` is
    trained with Adam at a learning rate that falls linearly to zero. Its gradient is clipped separately, as annealed
    gates can have gradients so large that clipping would reduce those of the weights to nothing.

    parameter: (units,) float64 on the CPU, requires grad. Only gates move to the model's device.
    gates: given a step, from 0, returns (units,).
    The copy is frozen and in evaluation mode.

    Raises FloatingPointError if the loss is not finite.
    """
    training = training_of(view)
    adam = torch.optim.Adam([parameter], lr=learning_rate)
    steppers: list[Stepper] = [before_update] if before_update else []
    steppers += [adam, LambdaLR(adam, lambda step: 1 - step / training.steps)]
    with (
        training_copy(view, seeds.dropout) as model,
        gated(model, torch.ones(len(view.heads)), view.heads) as set_gates,
    ):
        model.requires_grad_(not frozen)
        weights = [] if frozen else list(model.parameters())
        dtypes = to_float32(weights)
        like = next(model.parameters())  # device and dtype of the gates
        if not frozen:
            steppers += training.optimizer(model)

        def before_step(step: int) -> Tensor:
            now = gates(step)
            set_gates(now.to(like))
            return now

        trace = train(
            view,
            model,
            [weights, [parameter]],
            steppers,
            what="gates",
            learning_rate=learning_rate,
            before_step=before_step,
            penalty=penalty,
        )
        to_dtypes(weights, dtypes)
    return model, trace
