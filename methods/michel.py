"""Sensitivity of the loss to a gate on each head (Michel, Levy & Neubig 2019)."""

import torch
from torch import Tensor

from methods import View, scorer
from methods.heads import gated


@scorer(
    "michel",
    source="Michel et al. 2019, Eq. 2",
    variants={"michel": {"layer_norm": "auto"}, "greedy-michel": {"recompute": 1, "layer_norm": "auto"}},
)
def michel(view: View) -> Tensor:
    """Mean absolute gradient of the loss with respect to a gate on the unit.

        importance(u) = mean over examples x of | d loss(x) / d gate_u |  at gate_u = 1

    The absolute value is taken per example (Li, Cotterell & Sachan 2021, Eq. 21), not per batch as in the published
    code. The paper scores once, with a norm over the units of each layer. ``greedy-michel`` scores again after every
    ``recompute`` units, without: the last unit of a layer would always score 1. The schedule applies the norm
    (``layer_norm``). Returns (units,).

    Source: Michel, Levy & Neubig, "Are Sixteen Heads Really Better than One?", NeurIPS 2019, Eq. 2.
    """
    total = torch.zeros(len(view.heads), dtype=torch.float64)
    for batch in view.batches:
        labels = batch.labels
        gates = torch.ones(len(view.heads), len(labels), device=labels.device, requires_grad=True)
        with gated(view.model, gates, view.heads):
            (gradient,) = torch.autograd.grad(view.loss(batch).sum(), gates)  # (units, B)
        total += gradient.abs().sum(1).double().cpu()
    return total / view.examples
