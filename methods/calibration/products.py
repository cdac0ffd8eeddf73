"""Products of the inputs of each output projection over the calibration set: what least squares on its weights need."""

from __future__ import annotations

import torch
from torch import Tensor

from methods.calibration.contexts import each_context
from methods.contract.view import View


def input_products(view: View) -> list[Tensor]:
    """X^T X for the input X, (tokens, H * d_h), of the output projection of each site: (H * d_h, H * d_h) each.

    The tokens are all that are not padding, of every call of a tied layer. In float64 on the CPU, summed batch by batch
    in one forward pass. Raises ValueError if a batch does not say which tokens are padding.
    """
    widths = [site.num_heads * site.head_dim for site in view.heads.sites]
    sums = [torch.zeros(width, width, dtype=torch.float64) for width in widths]

    def take(index: int, tokens: Tensor, texts: Tensor) -> None:
        inputs = tokens.flatten(1).double()
        sums[index] = sums[index].to(inputs.device).addmm_(inputs.T, inputs)

    each_context(view, take)
    return [total.cpu() for total in sums]
