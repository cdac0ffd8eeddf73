"""Norm of a head's output weights: the cheapest thing anyone would try."""

import torch
from torch import Tensor
from transformers.pytorch_utils import Conv1D

from methods import View, scorer


@scorer("magnitude", source="folklore")
def magnitude(view: View) -> Tensor:
    """L2 norm of the output projection's weights that read the head; no data needed. Returns (units,)."""
    norms = []
    for index, site in enumerate(view.heads.sites):
        weight = view.model.get_parameter(f"{site.output}.weight").detach().double()  # (d, H * d_h)
        if isinstance(view.model.get_submodule(site.output), Conv1D):  # GPT-2's is transposed
            weight = weight.T
        of_heads = weight.unflatten(1, (site.num_heads, site.head_dim))
        norms.append(view.per_unit(index, of_heads.norm(dim=(0, 2)).cpu()))
    return torch.cat(norms)
