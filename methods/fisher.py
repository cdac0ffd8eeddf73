"""Diagonal Fisher information of gates on the heads (Kwon et al. 2022)."""

import torch
from torch import Tensor

from methods import View, scorer
from methods.calibration.gate_gradients import gate_gradients


@scorer("fisher", source="Kwon et al. 2022, the diagonal of the Fisher matrix of the mask")
def fisher(view: View) -> Tensor:
    """Root of the mean squared gradient of the loss with respect to a gate on the unit.

        importance(u)^2 = mean over examples x of (d loss(x) / d gate_u)^2  at gate_u = 1

    The square is twice what removing the unit adds to the loss, in a second-order expansion that leaves out the first
    order and takes the empirical Fisher matrix for the Hessian, without its entries off the diagonal. The root ranks
    alike, and stands rounding better. Takes one pass forward and backward. Returns (units,).

    The published code squares the gradient of the mean loss of each batch, of 32 texts or fewer, in place of that of
    each example.

    Source: Kwon et al., "A Fast Post-Training Pruning Framework for Transformers", NeurIPS 2022, arXiv 2204.09656.
    """
    total = torch.zeros(len(view.heads), dtype=torch.float64)
    for gradients in gate_gradients(view):
        total += gradients.square().sum(1)
    return (total / view.examples).sqrt()
