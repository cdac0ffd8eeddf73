"""Minitron: the size of a head's context (Muralidharan et al. 2024)."""

import torch
from torch import Tensor

from methods import View, scorer
from methods.calibration.contexts import each_context


@scorer("minitron", source="Muralidharan et al. 2024, Minitron", variants={"minitron": {"allocation": "layer"}})
def minitron(view: View) -> Tensor:
    """L2 norm of a head's context: over its channels and the texts, of the mean magnitude over the tokens of a text.

        importance(h) = || a_h ||_2,  a_h[x, j] = mean over the tokens of text x of |context_h|_j,  (texts, d_h)

    The same number of units goes from every layer and, as units are whole groups or one query head of every group, from
    every group of a layer, so that the smaller model has one shape throughout (at shares that divide by the number of
    layers; else some layers lose one more). Takes one forward pass. A unit has the root mean square of its heads.
    Returns (units,).

    Source: Muralidharan et al., "Compact Language Models via Pruning and Knowledge Distillation", NeurIPS 2024, arXiv
    2407.14679. The means over tokens and norms over a batch are those that the paper found best.
    """
    totals = [torch.zeros(site.num_heads, dtype=torch.float64) for site in view.heads.sites]

    def take(index: int, tokens: Tensor, texts: Tensor) -> None:
        number = int(texts.max()) + 1 if len(texts) else 0
        lengths = torch.bincount(texts, minlength=number)
        sums = tokens.new_zeros(number, *tokens.shape[1:], dtype=torch.float64).index_add_(
            0, texts, tokens.abs().double()
        )
        means = sums / lengths.clamp_min(1)[:, None, None]
        totals[index] += means.square().sum((0, 2)).cpu()

    each_context(view, take)
    return torch.cat([view.per_unit(index, total) for index, total in enumerate(totals)]).sqrt()
