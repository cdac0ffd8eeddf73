"""What a head adds to the loss, from gradients along the way on which its gate closes."""

from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from torch import Tensor

from methods import AtLeast, Batch, View, scorer
from methods.calibration.gate_gradients import gradients_at, gradients_at_site


@scorer("path", source="this project")
def path(
    view: View,
    *,
    along: Annotated[
        Literal["layer", "all", "random"],
        "what closes with a gate: its layer's gates, all gates, or each other gate at random",
    ] = "layer",
    points: Annotated[int, "values of the gates, between 0 and 1, at which gradients are taken", AtLeast(1)] = 2,
    signed: Annotated[bool, "how much the loss rises on average, instead of how much it changes on each text"] = False,
) -> Tensor:
    """Integral of the gate's gradient while the gate closes, not only its value where it is open.

        importance(u) = mean over examples x of | integral from 0 to 1 of (d loss(x) / d gate_u)(gates at a) da |

    The gradient at 1, which is ``michel``, says little about a gate that closes all the way. Here it is taken at the
    midpoints of ``points`` equal parts of 0 to 1, for all units of a path in one pass forward and backward:

    - ``along=layer``: the gates of the unit's layer are at a, all others at 1. Takes layers * points passes, in which
      nothing below the layer is differentiated.
    - ``along=all``: all gates are at a. Takes ``points`` passes. With ``signed`` the importances then add up to what
      the loss rises when all heads go, but for the error of the quadrature (completeness, as of integrated gradients).
    - ``along=random``: each gate is 1 with probability a and else 0, drawn for each example. Takes ``points`` passes.
      This is Owen's sampling of Shapley values, with a gradient for the difference that a unit makes.

    ``signed`` leaves out the absolute value and takes the rise of the loss. Returns (units,).

    Source: this project; Sundararajan, Taly & Yan, "Axiomatic Attribution for Deep Networks", ICML 2017, for the path
    integral of a network's inputs.
    """
    total = torch.zeros(len(view.heads), dtype=torch.float64)
    for batch in view.batches:
        slope = torch.zeros(len(view.heads), len(batch.labels), dtype=torch.float64)
        for place in range(points):
            slope += _slopes(view, batch, along, (place + 0.5) / points) / points
        total += -slope.sum(1) if signed else slope.abs().sum(1)
    return total / view.examples


def _slopes(view: View, batch: Batch, along: str, value: float) -> Tensor:
    """Gradient to the gate of each unit, (units, B), at the point ``value`` of its path."""
    shape = len(view.heads), len(batch.labels)
    if along == "layer":
        return torch.cat(list(_of_layers(view, batch, value)))
    if along == "all":
        return gradients_at(view, batch, torch.full(shape, value))
    return gradients_at(view, batch, torch.full(shape, value).bernoulli(generator=view.generator))


def _of_layers(view: View, batch: Batch, value: float) -> Iterator[Tensor]:
    for index, units in enumerate(view.heads.shape):
        yield gradients_at_site(view, batch, index, torch.full((units, len(batch.labels)), value))
