"""Self-attention attribution: integrated gradients over a layer's attention maps.

Hao, Dong, Wei & Xu, "Self-Attention Attribution: Interpreting Information Interactions Inside Transformer", AAAI 2021.
"""

from typing import Annotated, Literal

import torch
from torch import Tensor

from methods.contract.options import AtLeast
from methods.contract.registry import scorer
from methods.contract.view import Batch, View
from methods.heads import Site, observed


@scorer("attr", source="Hao et al. 2021, attribution score and head pruning")
def attr(
    view: View,
    *,
    steps: Annotated[int, "steps m of alpha from 0 to 1", AtLeast(1)] = 20,
    variant: Annotated[
        Literal["right", "left"], "alpha at the end of each step, k/m, or at its start as in the published code"
    ] = "right",
) -> Tensor:
    """Mean over examples of the largest entry of Attr_h = A_h * 1/m sum_k dF(alpha_k A) / dA_h.

    F is the probability of the right class, or exp(-loss) whatever the loss is of. A holds the maps of all heads of
    one layer, and alpha_k = k/m; other layers run as they are. Entries of padded queries and keys do not count. Where
    layers are tied, each is studied by itself, the others left as they are, and the mean over them is taken.

    Contexts are linear in A: alpha A has the context alpha z, and dF/dA[t,s] = <dF/dz[t], v[s]>. A and V do not depend
    on alpha, so that gradients at contexts are averaged, and one product with V gives the map. ``steps`` times
    layers forward and backward passes. Returns (units,).
    """
    alphas = [(step + (variant == "right")) / steps for step in range(steps)]
    totals = [torch.zeros(size, dtype=torch.float64) for size in view.heads.shape]
    for batch in view.batches:
        gradients = {
            index: [_mean_gradient(view, batch, site, call, alphas) for call in range(site.calls)]
            for index, site in enumerate(view.heads.sites)
            if site.num_heads
        }
        for index, largest in _largest_attributions(view, batch, gradients):
            totals[index] += view.per_unit(index, largest.sum(0).double().cpu()) / view.heads.sites[index].calls
    return torch.cat(totals) / view.examples


def _mean_gradient(view: View, batch: Batch, site: Site, call: int, alphas: list[float]) -> Tensor:
    """dF/dz averaged over alpha, where z is the context of all heads of one call of a site: (B, T, H, d_h)."""
    total = sum((_gradient(view, batch, site, call, alpha) for alpha in alphas), torch.zeros(()))
    return total.unflatten(-1, (site.num_heads, site.head_dim)) / len(alphas)


def _gradient(view: View, batch: Batch, site: Site, call: int, alpha: float) -> Tensor:
    """dF/dz where that call's contexts are alpha times what they are: (B, T, H * d_h)."""
    contexts: list[Tensor] = []  # of each call

    def scale(module, args):
        z = args[0]  # (B, T, H * d_h)
        contexts.append((alpha * z).detach().requires_grad_() if len(contexts) == call else z)
        return (contexts[-1], *args[1:])

    hook = view.model.get_submodule(site.output).register_forward_pre_hook(scale)
    try:
        logits = view.logits(batch)
    finally:
        hook.remove()
    right = view.loss_of_logits(_wide(logits), batch).neg().exp()
    (gradient,) = torch.autograd.grad(right.sum(), contexts[call])
    return _wide(gradient)


def _largest_attributions(view: View, batch: Batch, gradients: dict[int, list[Tensor]]) -> list[tuple[int, Tensor]]:
    """Largest entry of each head's Attr, (B, H), with the site's index, a call at a time. Uses ``gradients`` up."""
    real = batch.inputs["attention_mask"].bool()
    pairs = (real[:, :, None] & real[:, None, :])[:, None]  # (B, 1, T, T)
    values: dict[int, Tensor] = {}  # of the call at hand, (B, T, groups, d_h)
    largest: list[tuple[int, Tensor]] = []

    def attribute(index: int, rows: Tensor) -> None:
        site = view.heads.sites[index]
        v = _wide(values.pop(index)).repeat_interleave(site.queries_per_group, 2)  # (B, T, H, d_h)
        gradient = torch.einsum("bthd,bshd->bhts", gradients[index].pop(0), v)  # dF/dA
        largest.append((index, (rows * gradient).masked_fill(~pairs.to(rows.device), -torch.inf).amax((2, 3))))

    hooks = [_keep_values(view, index, values) for index in gradients]
    try:
        with torch.no_grad(), observed(view.model, view.heads, attention=attribute):
            view.logits(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return largest


def _keep_values(view: View, index: int, values: dict[int, Tensor]):
    """A hook that puts a site's value vectors into ``values``."""
    site = view.heads.sites[index]
    rows = site.rows("value", list(range(site.heads_of("value"))))

    def keep(module, args, output):
        values[index] = output[..., rows].unflatten(-1, (-1, site.head_dim))

    return view.model.get_submodule(site.projections["value"]).register_forward_hook(keep)


def _wide(values: Tensor) -> Tensor:
    """``values`` in float32 or wider."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
