"""FLAP: how much the input of a head's output weights fluctuates (An et al. 2024)."""

from typing import Annotated

import torch
from torch import Tensor

from methods import View, scorer
from methods.calibration.contexts import each_context
from methods.heads.finding.linear import transposed


@scorer("flap", source="An et al. 2024, FLAP, structure AL-AM")
def flap(
    view: View,
    *,
    standardise: Annotated[bool, "subtract the mean of the layer's heads, and divide by their deviation"] = True,
) -> Tensor:
    """Variance of a head's context over tokens, weighted by the squared norm of the weights that read it.

        importance(h) = mean over the channels j of h of Var(x_j) || W_j ||^2,  then standardised within the layer

    x_j is column j of the input of the output projection over all tokens that are not padding, W_j the weights that
    read it, (d,). What hardly fluctuates can be replaced by its mean, which FLAP adds to the bias: that is
    ``recover=bias``, not part of this score. Layers are compared after standardising, over the units left in a layer; a
    layer whose units are all alike gets 0. Takes one forward pass. A unit has the mean of its heads. Returns (units,).

    The published code squares the metric of attention, and standardises the channels of a layer before it takes the
    mean of each head, so that a layer whose heads differ less than their channels counts for less.

    Source: An et al., "Fluctuation-based Adaptive Structured Pruning for Large Language Models", AAAI 2024, arXiv
    2312.11983.
    """
    sites = view.heads.sites
    counts = torch.zeros(len(sites), dtype=torch.float64)
    means = [torch.zeros(site.num_heads, site.head_dim, dtype=torch.float64) for site in sites]
    squares = [torch.zeros_like(mean) for mean in means]  # sums of squared deviations from the mean

    def take(index: int, tokens: Tensor, texts: Tensor) -> None:
        # Chan, Golub & LeVeque 1983: deviations of two sets around the mean of both, without cancellation.
        wide = tokens.double()
        mean, count = wide.mean(0), len(wide)
        deviations = (wide - mean).square().sum(0).cpu()
        shift = mean.cpu() - means[index]
        counts[index] += count
        means[index] += shift * count / counts[index]
        squares[index] += deviations + shift.square() * count * (counts[index] - count) / counts[index]

    each_context(view, take)
    scores = []
    for index, site in enumerate(sites):
        weight = transposed(view.model.get_submodule(site.output)).detach().double().cpu()  # (H * d_h, d)
        norms = weight.square().sum(1).unflatten(0, squares[index].shape)
        scores.append(view.per_unit(index, (squares[index] / counts[index] * norms).mean(1)))
    importance = torch.cat(scores)
    return _standardised(importance, view) if standardise else importance


def _standardised(importance: Tensor, view: View) -> Tensor:
    """``importance`` of each unit, less the mean over the units left in its layer, over their standard deviation."""
    result = torch.zeros_like(importance)
    for site in range(len(view.heads.sites)):
        left = view.kept & (view.heads.site_of_unit == site)
        if left.any():
            deviation = importance[left].std(correction=0)
            result[left] = (importance[left] - importance[left].mean()) / (deviation if deviation > 0 else 1.0)
    return result.float()  # without the last digits, which would order the 1 and -1 of layers of two units
