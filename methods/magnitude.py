"""Norm of a head's output weights."""

import torch
from torch import Tensor

from methods import View, scorer
from methods.heads.finding.linear import transposed


@scorer("magnitude", source="folklore")
def magnitude(view: View) -> Tensor:
    """L2 norm of the weights of the output projection that read the head. Needs no data.

        importance(h) = || W_O,h ||_F,  W_O,h: (d_h, d)

    A unit has the mean of its heads. Returns (units,).
    """
    norms = []
    for index, site in enumerate(view.heads.sites):
        weight = transposed(view.model.get_submodule(site.output)).detach().double()  # (H * d_h, d)
        of_heads = weight.unflatten(0, (site.num_heads, site.head_dim))
        norms.append(view.per_unit(index, of_heads.norm(dim=(1, 2)).cpu()))
    return torch.cat(norms)
