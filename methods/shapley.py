"""Shapley values of heads: what a head adds to the model on average over all orders in which heads may go."""

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from methods.contract.options import AtLeast
from methods.contract.registry import scorer
from methods.contract.view import View
from methods.heads import gated
from methods.heads.incremental import LengthGroup, group_by_length

ROUND = 8  # orders walked side by side, between two looks at the standard error; half of them are reverses
TOKENS = 4096  # most in a forward pass that walks several orders


@scorer("shapley", source="Ghorbani & Zou 2020, Neuron Shapley; truncated as in Ghorbani & Zou 2019, Algorithm 1")
def shapley(
    view: View,
    *,
    permutations: Annotated[int, "most orders of removal that are tried, by twos", AtLeast(4)] = 32,
    error: Annotated[float, "standard error, as a share of the largest value, at which to stop", AtLeast(0)] = 0.15,
    tolerance: Annotated[float, "how near to the loss without any head, as a share, an order ends", AtLeast(0)] = 0.01,
) -> Tensor:
    """Shapley value of each unit in the game whose worth is minus the mean calibration loss.

    Mean over random orders of removal of how much the loss rises when the unit goes. With each order its reverse is
    tried: where a unit goes early in one, it goes late in the other, so their mean varies less (Mitchell et al. 2022,
    "Sampling Permutations for Shapley Value Estimation", antithetic sampling). Orders are drawn until the largest
    standard error of a value is at most ``error`` times the largest value in size (looked at every 8 orders), or
    ``permutations`` are done. An order ends where the loss is within ``tolerance`` times the whole rise of that without
    any head, and the units still there get 0 from it; but for that, which is a bias, and none with ``tolerance=0``,
    the expectation is the Shapley value. Takes up to units * permutations evaluations of the calibration set.
    Returns (units,), 0 for units that are gone already.

    Source: Ghorbani & Zou, "Neuron Shapley", NeurIPS 2020, and "Data Shapley", ICML 2019, Algorithm 1.
    """
    return estimate(view, permutations, error, tolerance)[0]


@torch.no_grad()
def estimate(view: View, permutations: int, error: float, tolerance: float) -> tuple[Tensor, Tensor, int]:
    """Values and their standard errors, (units,) each, and the number of orders that they come from.

    permutations: at least 4, as a standard error takes two pairs of an order and its reverse.
    """
    groups = group_by_length(view.batches, view.model, copies=ROUND)
    units = view.kept.nonzero().flatten()
    ends = torch.ones(len(view.heads), 2).index_put((units, torch.ones_like(units)), torch.zeros(()))
    least, most = _losses(view, groups, ends)  # with all units and with none
    rises = torch.zeros(0, len(view.heads), dtype=torch.float64)  # mean of an order and its reverse, (pairs, units)
    while len(rises) < permutations // 2:
        drawn = min(ROUND, permutations - 2 * len(rises)) // 2
        orders = torch.stack([units[torch.randperm(len(units), generator=view.generator)] for _ in range(drawn)])
        both = _walk(view, groups, torch.cat([orders, orders.flip(1)]), least, most, tolerance)
        rises = torch.cat([rises, (both[:drawn] + both[drawn:]) / 2])
        standard_error = rises.std(0) / len(rises) ** 0.5
        if standard_error.max() <= error * rises.mean(0).abs().max():
            break
    return rises.mean(0), standard_error, 2 * len(rises)


def _walk(
    view: View, groups: Sequence[LengthGroup], orders: Tensor, least: Tensor, most: Tensor, tolerance: float
) -> Tensor:
    """By how much the loss rises as each unit goes, in ``orders`` (n, units kept): (n, units)."""
    rises = torch.zeros(len(orders), len(view.heads), dtype=torch.float64)
    gates = torch.ones(len(view.heads), len(orders))
    before, going = least.expand(len(orders)).clone(), torch.arange(len(orders))
    for place in range(orders.shape[1]):
        if place:
            going = going[(most - before[going]).abs() >= tolerance * (most - least).abs()]
        if not len(going):
            break
        removed = orders[going, place]
        gates[removed, going] = 0.0
        loss = _losses(view, groups, gates[:, going]) if place + 1 < orders.shape[1] else most
        rises[going, removed] = loss - before[going]
        before[going] = loss
    return rises


def _losses(view: View, groups: Sequence[LengthGroup], gates: Tensor) -> Tensor:
    """Mean calibration loss under each column of ``gates``, (units, n): (n,)."""
    totals = torch.zeros(gates.shape[1], dtype=torch.float64)
    with gated(view.model, gates[:, 0], view.heads) as put:
        for group in groups:
            texts = len(group.labels)
            for some in torch.arange(gates.shape[1]).split(max(1, TOKENS // group.tokens)):
                put(gates[:, some].repeat_interleave(texts, 1))
                losses = view.loss(group.repeated(len(some)))  # (copies * texts,)
                totals[some] += group.totals(losses, len(some))
    return totals / view.examples
