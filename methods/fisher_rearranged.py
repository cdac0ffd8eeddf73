"""Heads that go together: the Fisher matrix of each layer's gates, rearranged (Kwon et al. 2022)."""

import torch
from torch import Tensor

from methods import View, selector
from methods.calibration.gate_gradients import gate_gradients
from methods.calibration.once import once
from methods.contract.schedule import NonFiniteScore


@selector("fisher-rearranged", source="Kwon et al. 2022, mask search and mask rearrangement")
def fisher_rearranged(view: View, keep: int) -> Tensor:
    """Keeps as many units of each layer as ``fisher`` does, and chooses them by the layer's whole Fisher matrix.

        minimise v^T F v over the units v to remove,  F = mean over x of (d loss(x) / d g)(d loss(x) / d g)^T

    for the gates g of one layer at 1: two units that add to the loss together cost more than one by one, and two of
    which one makes up for the other cost less. From the least of the diagonal, units are swapped, each time those two
    that lower the sum most, until no swap does. Of units with exactly the same diagonal, the one with the lower index
    counts as more important here, while ``fisher`` removes it first: with such ties across layers, the numbers of units
    may differ from those of ``fisher``. All budgets together take one pass forward and backward. Returns (units,).

    Source: Kwon et al., "A Fast Post-Training Pruning Framework for Transformers", NeurIPS 2022, arXiv 2204.09656. Its
    swaps go over a layer once; these go on until none helps.
    """
    information = information_of_units(view)
    mask = view.heads.best(information, keep, view.kept)
    for index, matrix in enumerate(fisher_matrices(view)):
        mine = ((view.heads.site_of_unit == index) & view.kept).nonzero().flatten()
        if len(mine):
            place = mine - int((view.heads.site_of_unit == index).nonzero()[0])
            mask[mine] = ~rearranged(matrix[place][:, place], ~mask[mine])
    return mask


@once
def fisher_matrices(view: View) -> list[Tensor]:
    """Mean over examples of g g^T for the gate gradients g of each site: (units of the site, same) float64 each."""
    shape = view.heads.shape
    totals = [torch.zeros(size, size, dtype=torch.float64) for size in shape]
    for gradients in gate_gradients(view):
        for total, own in zip(totals, gradients.split(shape), strict=True):
            total += own @ own.T
    return [total / view.examples for total in totals]


def information_of_units(view: View) -> Tensor:
    """The diagonals of ``fisher_matrices``, (units,) float64. Raises NonFiniteScore where a unit's is not finite."""
    information = torch.cat([matrix.diagonal() for matrix in fisher_matrices(view)])
    if not information[view.kept].isfinite().all():  # then no swap would ever be the last
        unit = int((view.kept & ~information.isfinite()).nonzero()[0])
        raise NonFiniteScore(f"importance {information[unit]} for {view.heads.name(unit)}")
    return information


def rearranged(matrix: Tensor, removed: Tensor) -> Tensor:
    """Units to remove, (units,) bool, as many as ``removed``, whose v^T F v no swap of two units lowers.

    Found by swaps from ``removed``. matrix: F, (units, units), symmetric.
    """
    removed = removed.clone()
    diagonal = matrix.diagonal()
    least_gain = 1e-12 * diagonal.abs().sum()  # rounding must not make swaps go round
    while removed.any() and not removed.all():
        out, into = removed.nonzero().flatten(), (~removed).nonzero().flatten()
        cost = matrix @ removed.to(matrix.dtype)  # F v
        # (v - e_i + e_j)^T F (v - e_i + e_j) - v^T F v, for i of those removed and j of those kept
        change = (diagonal - 2 * cost)[out][:, None] + (diagonal + 2 * cost)[into] - 2 * matrix[out][:, into]
        best = int(change.argmin())
        i, j = out[best // len(into)], into[best % len(into)]
        if change.flatten()[best] >= -least_gain:
            break
        removed[i], removed[j] = False, True
    return removed
