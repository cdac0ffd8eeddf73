"""Train the weights that are left when heads and neurons are gone: on a physically smaller model, which is cheaper."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from methods.contract.choice import Choice
from methods.contract.trace import Trace
from methods.contract.view import View
from methods.training.loop import to_dtypes, to_float32, train, training_copy, training_of

PORTION = 2**26  # weights whose positions are held at a time, in eight bytes each


@contextmanager
def smaller_training_copy(
    view: View, seed: int, mask: Tensor, neurons: Mapping[str, Tensor] | None = None
) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Yield a smaller copy of the view's model to train, and the whole copy that its weights are written back to.

    mask: (units,) bool, the units kept. neurons: (width,) bool by name of the feed-forward layer; None keeps all.

    A unit whose gate is fixed at 0 gets no gradient, so training without it gives the weights that training with that
    gate gives. On leaving, the whole copy holds the trained weights; those of what is removed stay as they were. Both
    copies are frozen then, and in evaluation mode. Random states as in ``training_copy``.
    """
    with training_copy(view, seed) as whole:
        smaller = Choice(whole, view.heads, mask, neurons).smaller()
        yield smaller, whole
        with torch.no_grad():
            for name, places in _places(whole, view, mask, neurons):
                weight, target = smaller.get_parameter(name), whole.get_parameter(name)
                if target is not weight:  # weights of which nothing goes are shared
                    target.view(-1)[places] = weight.flatten()
        smaller.eval().requires_grad_(False)


def train_remaining(view: View, mask: Tensor, seed: int) -> tuple[nn.Module, Trace]:
    """A copy of the model whose weights are trained, as the task trains them, without the units that ``mask`` drops.

    Returns the copy, and the trace of the training, in which the units kept are open.

    mask: (units,) bool. seed: of dropout. The copy is whole, frozen and in evaluation mode; weights in half precision
    are trained in float32 and rounded at the end.

    Raises FloatingPointError if the loss is not finite.
    """
    with smaller_training_copy(view, seed, mask) as (smaller, whole):
        weights = list(smaller.requires_grad_().parameters())
        dtypes = to_float32(weights)
        steppers = training_of(view).optimizer(smaller)
        trace = train(
            view, smaller, [weights], steppers, what="weights", learning_rate=0.0, before_step=lambda step: mask
        )
        to_dtypes(weights, dtypes)
    return whole, trace


def _places(
    whole: nn.Module, view: View, mask: Tensor, neurons: Mapping[str, Tensor] | None
) -> Iterator[tuple[str, Tensor]]:
    """Name of each parameter, and where the smaller model's weights stand in the flattened parameter of that name.

    Found by removing the same from copies in which every weight is its own position, for some parameters at a time.
    """
    nothing = {id(weight): nn.Parameter(weight.to("meta"), requires_grad=False) for weight in whole.parameters()}
    buffers = {id(buffer): buffer for buffer in whole.buffers()}
    for names in _portions(whole):
        weights = [whole.get_parameter(name) for name in names]
        positions = {
            id(weight): nn.Parameter(
                torch.arange(weight.numel(), device=weight.device).view(weight.shape), requires_grad=False
            )
            for weight in weights
        }
        copied = copy.deepcopy(whole, {**nothing, **positions, **buffers})
        numbered = Choice(copied, view.heads, mask, neurons).smaller()
        yield from ((name, numbered.get_parameter(name).flatten()) for name in names)


def _portions(model: nn.Module) -> Iterator[list[str]]:
    """The names of the model's parameters, in portions of at most ``PORTION`` weights or of one parameter."""
    names: list[str] = []
    size = 0
    for name, weight in model.named_parameters():
        if names and size + weight.numel() > PORTION:
            yield names
            names, size = [], 0
        names.append(name)
        size += weight.numel()
    yield names
