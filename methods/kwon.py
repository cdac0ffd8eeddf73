"""Fast post-training pruning: Fisher mask search, rearrangement and tuned gates (Kwon et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from methods import Kept, View, selector
from methods.calibration.neuron_gradients import neuron_gate_gradients
from methods.calibration.once import once
from methods.calibration.part_costs import multiplication_costs, parameter_costs
from methods.contract.schedule import NonFiniteScore
from methods.fisher_rearranged import fisher_rearranged, information_of_units
from methods.heads import find_mlps

Budget = Literal["parameters", "flops"]


@selector(
    "kwon",
    source="Kwon et al. 2022, mask search, rearrangement and tuning",
    recover="scale",
    neurons={"parts": ["both"]},
)
def kwon(
    view: View,
    keep: int,
    *,
    parts: Annotated[Literal["heads", "both"], "what is removed: heads alone, or heads and neurons"] = "heads",
    budget: Annotated[
        Budget, "with neurons, what a level is a share of: parameters, or multiplications"
    ] = "parameters",
) -> Tensor | Kept:
    """Removes what carries least Fisher information, then scales each remaining head by a fitted factor.

    Search: the Fisher information of a gate at 1, the mean over examples of (d loss / d gate)^2, ranks heads over all
    layers. Rearrangement: as many heads of each layer as that, chosen by the layer's whole Fisher matrix, as
    ``fisher-rearranged``. Tuning: ``recover=scale``, the default here: layer after layer from the bottom, the output
    weights of each head are multiplied by the number that brings the layer's output closest to the unpruned model's.

    With ``parts=both`` a level is a share of the parameters of all heads and neurons (``budget=flops``: of their
    multiplications in a pass over the calibration set). For each number of heads removed, the rest of that is taken
    from neurons of all layers, least information first, and the split is the one that removes the least information in
    sum. So the share of the heads that goes is not that of the level: compare by parameters.

    Takes one pass forward and backward for all levels, a second one with neurons, and for each level under three
    forward if the model is one plain stack of blocks. If it is not (T5, DeBERTa, Falcon, GPT-J), up to two for each
    attention module, and under one more. With neurons and ``budget=flops``, the first batch goes forward once more, for
    all levels.

    Source: Kwon et al., "A Fast Post-Training Pruning Framework for Transformers", NeurIPS 2022, arXiv 2204.09656. Its
    budget is of FLOPs or of measured latency. Its numbers are damped by a constant, as with ``recover=scale-damped``;
    by default the damping is chosen on calibration texts held out, and a layer keeps its weights where they are no
    worse on those. Its swaps go over a layer once, here until none helps. It rearranges and tunes
    neurons too; here they are ranked one by one, and those that are left stay as they are. Its gradients are those of
    batches (see ``fisher``), and it keeps one head at least.
    """
    if parts == "heads":
        return fisher_rearranged(view, keep)
    heads, neurons = ranked(view, budget)
    gone, gone_neurons = best_split(heads, neurons, share=1 - keep / int(view.kept.sum()))
    mask = torch.ones(len(neurons.order), dtype=torch.bool)
    mask[neurons.order[:gone_neurons]] = False
    mlps = find_mlps(view.model)
    by_layer = mask.split([mlp.width for mlp in mlps])
    return Kept(
        fisher_rearranged(view, int(view.kept.sum()) - gone),
        {mlp.name: own for mlp, own in zip(mlps, by_layer, strict=True)},
    )


@dataclass(frozen=True)
class Ranked:
    """Parts of one kind, each with what it costs and with its Fisher information, (parts,) float64 both.

    order: indices of those that may be removed, first removed first.
    """

    information: Tensor
    cost: Tensor
    order: Tensor

    def removed(self, values: Tensor) -> Tensor:
        """Sum of ``values``, (parts,), over the first n parts of ``order``, for n from 0 on."""
        return torch.cat([torch.zeros(1, dtype=torch.float64), values[self.order].cumsum(0)])


def best_split(heads: Ranked, neurons: Ranked, share: float) -> tuple[int, int]:
    """How many heads and how many neurons to remove so that at least ``share`` of the cost of all goes.

    Of all such pairs, the one that removes the least information, and of equal ones the one with the fewest heads. All
    that may go where that is not enough, as where costly heads have to stay.
    """
    of_heads, of_neurons = heads.removed(heads.cost), neurons.removed(neurons.cost)
    least = share * float(heads.cost.sum() + neurons.cost.sum()) * (1 - 1e-12)  # but for rounding
    count = torch.searchsorted(of_neurons, least - of_heads)  # of neurons, by number of heads
    enough = count <= len(neurons.order)
    if not enough.any():
        return len(heads.order), len(neurons.order)
    lost = neurons.removed(neurons.information)[count.clamp_max(len(neurons.order))]
    best = int(torch.where(enough, heads.removed(heads.information) + lost, torch.inf).argmin())
    return best, int(count[best])


def ranked(view: View, budget: Budget) -> tuple[Ranked, Ranked]:
    """The units, and the neurons of all feed-forward layers one after the other, least Fisher information first.

    Raises NonFiniteScore for information that is not finite.
    """
    of_units, by_layer = information_of_units(view), neuron_information(view)
    for name, values in by_layer.items():
        if not values.isfinite().all():
            place = int((~values.isfinite()).nonzero()[0])
            raise NonFiniteScore(f"importance {values[place]} for neuron {place} of {name}")
    of_neurons = torch.cat(list(by_layer.values()))
    cost_of_units, cost_of_neurons = (parameter_costs if budget == "parameters" else multiplication_costs)(view)
    costs = torch.cat([torch.full_like(own, cost_of_neurons[name]) for name, own in by_layer.items()])
    order, _ = view.heads.removal_order(of_units, view.kept)  # as in fisher-rearranged, also where units are equal
    return Ranked(of_units, cost_of_units, order), Ranked(of_neurons, costs, of_neurons.argsort(stable=True))


@once
def neuron_information(view: View) -> dict[str, Tensor]:
    """Mean over examples of the squared gradient to a gate on each neuron: (width,) float64 by feed-forward layer."""
    totals: dict[str, Tensor] = {}
    for gradients in neuron_gate_gradients(view):
        for name, values in gradients.items():
            totals[name] = totals.get(name, 0) + values.square().sum(1)
    return {name: total / view.examples for name, total in totals.items()}
