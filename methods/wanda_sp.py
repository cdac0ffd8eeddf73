"""Wanda-SP: weights of the output projection times the size of what they read (An et al. 2024, after Sun et al.)."""

import torch
from torch import Tensor

from methods import View, scorer
from methods.calibration.contexts import each_context
from methods.heads.finding.linear import transposed


@scorer(
    "wanda-sp",
    source="An et al. 2024, the structured Wanda in FLAP's code",
    variants={"wanda-sp": {"allocation": "layer"}},
)
def wanda_sp(view: View) -> Tensor:
    """Sum over a head's channels of the mean magnitude of the weights that read a channel, times its norm.

        importance(h) = sum over the channels j of h of  mean over outputs i of |W_ji| * || x_j ||_2

    x_j is column j of the input of the output projection over all tokens that are not padding. Every layer loses
    equally many units, or some one more. Takes one forward pass. A unit has the mean of its heads. Returns (units,).

    Source: Sun et al., "A Simple and Effective Pruning Approach for Large Language Models", ICLR 2024, arXiv
    2306.11695, for single weights; summed over a head by the code of An et al., arXiv 2312.11983.
    """
    squares = [torch.zeros(site.num_heads, site.head_dim, dtype=torch.float64) for site in view.heads.sites]

    def take(index: int, tokens: Tensor, texts: Tensor) -> None:
        squares[index] += tokens.double().square().sum(0).cpu()

    each_context(view, take)
    scores = []
    for index, site in enumerate(view.heads.sites):
        weight = transposed(view.model.get_submodule(site.output)).detach().double().cpu()  # (H * d_h, d)
        magnitudes = weight.abs().mean(1).unflatten(0, squares[index].shape)
        scores.append(view.per_unit(index, (magnitudes * squares[index].sqrt()).sum(1)))
    return torch.cat(scores)
