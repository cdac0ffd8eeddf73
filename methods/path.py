"""What a head adds to the loss, from gradients along the way on which gates close."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from methods import AtLeast, Batch, OptionError, View, scorer
from methods.calibration.gate_gradients import gradients_at, gradients_at_site
from methods.calibration.quadratic import fit_quadratic
from methods.calibration.random_gates import open_or_closed, partly_closed
from methods.heads import gated


def _signed_order(options: Mapping[str, Any]) -> None:
    if options["along"] == "order" and not options["signed"]:
        raise OptionError("signed=false goes with along=layer, all or random: the order of along=order is signed")


@scorer("path", source="this project", check=_signed_order)
def path(
    view: View,
    *,
    along: Annotated[
        Literal["order", "layer", "all", "random"],
        "what closes with a gate: those of the units that go before it, its layer's, all, or others at random",
    ] = "order",
    points: Annotated[int, "values of the gates at which gradients are taken, in each round", AtLeast(1)] = 7,
    rounds: Annotated[
        int, "times that units are scored, with equally many removed after each; 1 scores once", AtLeast(1)
    ] = 4,
    signed: Annotated[
        bool, "how much the loss rises on average, instead of how much it changes on each text; order is signed"
    ] = True,
) -> Tensor:
    """How much the loss rises when a unit is removed after all less important ones.

    The gradient at an open gate, which is ``michel``, says little about a gate that closes all the way. Here gradients
    g(x) of the loss to the gates are taken elsewhere too, for each text x, in ``points`` passes forward and backward:

    - ``along=order``: each text has gates of its own, drawn anew in each pass. A share of them is closed, completely or
      in part: of the units left, up to twice what the round removes. With c = 1 - gates, a quadratic model

          rise(c) = b^T c + c^T A c / 2,  b and A by ridge regression of -g(x) on c, over all texts and passes

      is fitted to the gradients, so A has the interactions of all pairs of units. The unit that goes next is the one
      that adds least to rise(c) of the units gone before. The importance is the place in this order. Texts must differ
      for their gates to differ: with few of them, or many units, take more points.
    - ``along=layer``: importance(u) = mean over x of the integral of -g_u(x) while the gates of u's layer close, at the
      midpoints of ``points`` equal parts of 0 to 1. Takes layers * points passes, in which nothing below the layer is
      differentiated.
    - ``along=all``: the same while all gates close. With one round, the importances add up to what the loss rises when
      all heads go, but for the error of the quadrature (completeness, as of integrated gradients).
    - ``along=random``: each gate of each text is 1 with probability a and else 0, for a at these midpoints. This is
      Owen's sampling of Shapley values, with a gradient for the difference that a unit makes.

    ``signed=false`` takes the mean of absolute values of these integrals, which ``along=order`` does not have. With
    several rounds, the units removed so far stay closed, and the importance is the place in the order of removal. Takes
    rounds * points passes (28 by default, for any number of units), those of ``along=layer`` as many for each layer.
    The defaults were chosen on models of 16 heads, where ``order`` was within a point of ``oracle-greedy``. On an
    encoder of 72 heads and four tasks, no difference to ``michel`` could be shown (docs/path.md, docs/real-models.md).
    Returns (units,).

    Source: this project; Sundararajan, Taly & Yan, "Axiomatic Attribution for Deep Networks", ICML 2017, for the path
    integral of a network's inputs.
    """
    units, order = view.kept.nonzero().flatten(), torch.tensor([], dtype=torch.long)
    scores = torch.zeros(len(view.heads), dtype=torch.float64)
    for number in range(rounds):
        stop = len(units) * (number + 1) // rounds
        if stop == len(order):
            continue
        left, going = view.kept.index_fill(0, order, False), stop - len(order)
        with gated(view.model, left, view.heads):
            if along == "order":
                closed, slopes = _at_random_gates(view, left, points, min(1.0, 2 * going / int(left.sum())))
                scores[left] = -slopes.mean(0)
            else:
                scores = _integrals(view, along, points, signed)
        if not scores[left].isfinite().all():
            return scores  # the schedule says whose
        if along == "order":
            gone = left.nonzero().flatten()[_next(closed, slopes, going)]
        else:
            gone = scores.masked_fill(~left, torch.inf).argsort(stable=True)[:going]
        order = torch.cat([order, gone])
    if along == "order" or rounds > 1:
        scores[order] = torch.arange(len(order), dtype=torch.float64)
    return scores


def _at_random_gates(view: View, left: Tensor, points: int, share: float) -> tuple[Tensor, Tensor]:
    """How far gates are closed and the gradients to them there, for each pass and text: (n, units left) each."""
    seed = _seed(view)
    closed, slopes = [], []
    for batch in view.batches:
        for gates in partly_closed(batch, len(view.heads), points, share, seed):
            closed.append(1 - gates[left].T.double())
            slopes.append(gradients_at(view, batch, gates)[left].T)
    return torch.cat(closed), torch.cat(slopes)


def _next(closed: Tensor, slopes: Tensor, number: int) -> list[int]:
    """The ``number`` units that go next, in their order, by a quadratic model of how much the loss rises."""
    first, second = fit_quadratic(closed, -slopes)
    rise = first + second.diagonal() / 2
    order: list[int] = []
    for _ in range(number):
        order.append(int(rise.argmin()))
        rise = rise + second[:, order[-1]]
        rise[order] = torch.inf
    return order


def _integrals(view: View, along: str, points: int, signed: bool) -> Tensor:
    """Mean over texts of the integral of minus the gradient to each gate along its path, or of its size: (units,)."""
    seed = _seed(view) if along == "random" else 0
    total = torch.zeros(len(view.heads), dtype=torch.float64)
    for batch in view.batches:
        slope = torch.zeros(len(view.heads), len(batch.labels), dtype=torch.float64)
        for place in range(points):
            slope += _slopes(view, batch, along, (place + 0.5) / points, seed + place) / points
        total += -slope.sum(1) if signed else slope.abs().sum(1)
    return total / view.examples


def _slopes(view: View, batch: Batch, along: str, value: float, seed: int) -> Tensor:
    """Gradient to the gate of each unit, (units, B), at the point ``value`` of its path."""
    if along == "layer":
        return torch.cat(list(_of_layers(view, batch, value)))
    if along == "all":
        return gradients_at(view, batch, torch.full((len(view.heads), len(batch.labels)), value))
    return gradients_at(view, batch, open_or_closed(batch, len(view.heads), value, seed))


def _of_layers(view: View, batch: Batch, value: float) -> Iterator[Tensor]:
    for index, units in enumerate(view.heads.shape):
        yield gradients_at_site(view, batch, index, torch.full((units, len(batch.labels)), value))


def _seed(view: View) -> int:
    """A seed for the random gates, drawn from the method's generator."""
    return int(torch.randint(2**62, (), generator=view.generator))
