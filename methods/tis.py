"""Taylor importance score: first-order effect of a head's attention map on the loss."""

import torch
from torch import Tensor

from methods import Batch, View, scorer
from methods.heads import observed


@scorer("tis", source="Hao et al. 2021, the Taylor baseline, after Michel et al. 2019")
def tis(view: View) -> Tensor:
    """First-order estimate of the change of the loss without the head's attention map.

        importance(h) = mean over examples of | sum_ij A_ij dL/dA_ij |,  A: attention map of the head, (T, T)

    A head's context is linear in its map, z = A V, so the sum is <z, dL/dz> and no map has to be formed. Rows of padded
    queries add nothing, as the loss does not depend on them. The maps of tied layers are summed before the absolute
    value, which is taken per head; a unit has the mean of its heads. Where a unit is one head, this is
    ``michel:layer_norm=false``. Returns (units,).

    Source: Hao, Dong, Wei & Xu, "Self-Attention Attribution", AAAI 2021, the Taylor baseline.
    """
    totals = [torch.zeros(size, dtype=torch.float64) for size in view.heads.shape]
    for batch in view.batches:
        for site, products in _products(view, batch).items():
            totals[site] += view.per_unit(site, products.abs().sum(0).double().cpu())
    return torch.cat(totals) / view.examples


def _products(view: View, batch: Batch) -> dict[int, Tensor]:
    """<z, dL/dz> by site, summed over its calls: (B, H)."""
    sites: list[int] = []
    contexts: list[Tensor] = []

    def keep(site: int, z: Tensor) -> None:
        sites.append(site)
        contexts.append(z.requires_grad_())  # a frozen model requires no gradient before its first site

    with observed(view.model, view.heads, context=keep):
        loss = view.loss(batch).sum()
    products: dict[int, Tensor] = {}
    # An encoder has no gradient where cross attention has no heads left.
    gradients = torch.autograd.grad(loss, contexts, materialize_grads=True)
    for site, z, gradient in zip(sites, contexts, gradients, strict=True):
        wide = torch.promote_types(z.dtype, torch.float32)
        product = torch.einsum("bthd,bthd->bh", z.detach().to(wide), gradient.to(wide))
        products[site] = products.get(site, torch.zeros_like(product)) + product
    return products
