"""Block OBS: heads whose part of the output projection the others can best make up for (ZipLM, OSSCAR)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from methods import AtLeast, Trained, View, joint, scorer
from methods.calibration.products import input_products
from methods.contract.schedule import Schedule, trajectories
from methods.heads.finding.linear import transposed
from methods.heads.surgery.shrink import working_copy
from methods.recovery.projection import Projection

SOURCE = "Kurtic et al. 2023, ZipLM; Meng et al. 2024, OSSCAR"
STEP = 1 + 1e-12  # a unit that goes after another of its layer has an importance larger by this factor at least

Damping = Annotated[float, "added to the diagonal of X^T X, as a share of its mean", AtLeast(1e-6)]


@scorer("obs", source=SOURCE)
def obs(view: View, *, damping: Damping = 0.01) -> Tensor:
    """Share of the layer's output that is lost with a unit, after the weights of the rest have made up for it.

        cost(G) = 1/2 tr(W_G^T [(H^-1)_GG]^-1 W_G),  H = X^T X + damping,  then  W -= (H^-1)_:G [(H^-1)_GG]^-1 W_G

    X is the input of the output projection over all tokens that are not padding, (tokens, H * d_h), W its weights, and
    W_G those that read unit G. In each layer the cheapest unit goes, W and H^-1 are those without it, and so on. A
    unit's importance is its cost when it goes, over that of the whole output, 1/2 || X W ||^2, but never less than that
    of a unit that went before it: then the order of all importances is the greedy one, also across layers. As the cost
    has the damping and the output has not, the last units of a layer may exceed 1 a little. The weights
    of the model do not change: ``obs-compensated`` does that. Takes one forward pass. Returns (units,).

    Source: Kurtic, Frantar & Alistarh, "ZipLM: Inference-Aware Structured Pruning of Language Models", NeurIPS 2023,
    arXiv 2302.04089; Meng et al., "OSSCAR: One-Shot Structured Pruning in Vision and Language Models with Combinatorial
    Optimization", ICML 2024, arXiv 2403.12983. OSSCAR goes on to improve the choice by swaps, and ZipLM fits measured
    latency; neither is done here. ``allocation=layer`` removes equally from every layer.
    """
    return _importance(view, _layers(view, damping))


@joint("obs-compensated", source=SOURCE, training_free=True)
def obs_compensated(
    view: View,
    budgets: Sequence[int],
    *,
    damping: Damping = 0.01,
    allocation: Annotated[
        Literal["global", "layer"], "rank all units together, or remove equally from every layer"
    ] = "global",
) -> Iterator[Trained]:
    """Removes units as ``obs`` does, and changes the weights of the output projections to make up for them.

        W_R += (H_RR)^-1 H_RG W_G  for the rows R that stay and the rows G that go, which become 0

    These are the weights that the steps of ``obs`` end in: the least squares of the layer's change on the calibration
    set, with ``damping`` as a ridge towards the old weights. The inputs of all layers are those of the unpruned model.
    Nothing is trained, and the training split is not used: all budgets take one forward pass over the calibration set.

    Source: as for ``obs``.
    """
    layers = _layers(view, damping)
    (path,) = trajectories(lambda view: _importance(view, layers), view, Schedule(allocation=allocation))
    for keep in budgets:
        mask = path.units_kept(len(view.heads) - keep, len(view.heads))
        model = working_copy(view.model)
        for layer in layers:
            kept = mask[layer.units]
            if not kept.all():
                Projection(compensated(layer, kept), None).write(model.get_submodule(layer.output), layer.inputs)
        yield Trained(mask, model)


@dataclass(frozen=True)
class _Layer:
    """The least squares problem of one output projection.

    output: its path. units: those of its site that are left. inputs: which inputs of the projection they have, those of
    a unit together. products: X^T X of these, (inputs, inputs), and damped: H. weight: their rows of W, (inputs,
    outputs). All in float64.
    """

    output: str
    units: list[int]
    inputs: Tensor
    products: Tensor
    damped: Tensor
    weight: Tensor


def _layers(view: View, damping: float) -> list[_Layer]:
    """The problems of all layers that have units left; units that are gone have no part in them."""
    layers = []
    for index, whole in enumerate(input_products(view)):
        site = view.heads.sites[index]
        units = ((view.heads.site_of_unit == index) & view.kept).nonzero().flatten().tolist()
        if not units:
            continue
        inputs = torch.cat([site.columns(view.heads.units[unit].heads) for unit in units])
        products = whole[inputs][:, inputs]
        ridge = damping * float(products.diagonal().mean()) or 1.0  # any will do where all inputs are 0
        damped = products + ridge * torch.eye(len(inputs), dtype=torch.float64)
        weight = transposed(view.model.get_submodule(site.output)).detach().double().cpu()[inputs]
        layers.append(_Layer(site.output, units, inputs, products, damped, weight))
    return layers


def _importance(view: View, layers: Sequence[_Layer]) -> Tensor:
    importance = torch.zeros(len(view.heads), dtype=torch.float64)
    for layer in layers:
        if not (layer.products.isfinite().all() and layer.weight.isfinite().all()):
            importance[layer.units] = torch.nan
            continue
        energy = float((layer.weight * (layer.products @ layer.weight)).sum()) / 2
        last = 0.0
        for place, cost in greedy_removal(layer.damped, layer.weight, len(layer.units)):
            last = max(cost / energy if energy > 0 else 0.0, last * STEP)
            importance[layer.units[place]] = last
    return importance


def greedy_removal(matrix: Tensor, weight: Tensor, units: int) -> Iterator[tuple[int, float]]:
    """Units in the order in which the cheapest goes, each with its cost then.

    matrix: H, (inputs, inputs), positive definite. weight: (inputs, outputs). Each of the ``units`` has as many inputs,
    which stand together.
    """
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(matrix))
    weight = weight.clone()
    blocks = torch.arange(len(matrix)).view(units, -1)
    left = list(range(units))
    while left:
        rows = blocks[left]
        factors = torch.linalg.cholesky(inverse[rows[:, :, None], rows[:, None, :]])  # of (H^-1)_GG
        halves = torch.linalg.solve_triangular(factors, weight[rows], upper=False)
        costs = halves.square().sum((1, 2)) / 2
        best = int(costs.argmin())
        yield left[best], float(costs[best])
        columns = torch.cholesky_solve(inverse[rows[best]], factors[best]).T  # (H^-1)_:G [(H^-1)_GG]^-1
        weight -= columns @ weight[rows[best]]
        inverse -= columns @ inverse[rows[best]]
        del left[best]


def compensated(layer: _Layer, kept: Tensor) -> Tensor:
    """The weights of ``layer``, (inputs, outputs), without the units not ``kept``, (units,) bool: theirs are 0."""
    stays = kept.repeat_interleave(len(layer.inputs) // len(layer.units))
    weight = torch.where(stays[:, None], layer.weight, 0.0)
    if kept.any():
        factor = torch.linalg.cholesky(layer.damped[stays][:, stays])
        weight[stays] += torch.cholesky_solve(layer.damped[stays][:, ~stays] @ layer.weight[~stays], factor)
    return weight
