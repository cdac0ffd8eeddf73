"""Self-attention attribution: integrated gradients over a layer's attention maps (Hao et al. 2021)."""

from typing import Annotated, Literal

import torch
from torch import Tensor

from methods import AtLeast, Batch, View, scorer
from methods.calibration.padding import real_entries
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
    """Largest attribution of the prediction to an entry of the head's attention map.

        importance(h) = mean over examples of max_ts Attr_h[t, s]
        Attr_h = A_h * 1/m sum_k dF(alpha_k A) / dA_h,  alpha_k = k / m

    F is the probability of the right class, or exp(-loss) for other tasks; A holds the attention maps of all heads of
    one layer, (H, T, T), in cross attention (H, T, S); other layers run unchanged. Padded queries and keys do not
    count. Tied layers are attributed
    one at a time and averaged; a unit has the mean of its heads. Takes ``steps`` forward and backward passes per layer.
    Returns (units,).

    Source: Hao, Dong, Wei & Xu, "Self-Attention Attribution: Interpreting Information Interactions Inside Transformer",
    AAAI 2021.
    """
    # Contexts are linear in A: alpha A has the context alpha z, and dF/dA[t,s] = <dF/dz[t], v[s]>. As A and V do not
    # depend on alpha, gradients at contexts are averaged over alpha first, and one product with V gives the map.
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
    """dF/dz averaged over alpha for the context z of all heads in one call of a site: (B, T, H, d_h)."""
    total = sum((_gradient(view, batch, site, call, alpha) for alpha in alphas), torch.zeros(()))
    return total.unflatten(-1, (site.num_heads, site.head_dim)) / len(alphas)


def _gradient(view: View, batch: Batch, site: Site, call: int, alpha: float) -> Tensor:
    """dF/dz with the contexts of that call multiplied by alpha: (B, T, H * d_h)."""
    contexts: list[Tensor] = []  # by call

    def multiply(module, args):
        z = args[0]  # (B, T, H * d_h)
        contexts.append((alpha * z).detach().requires_grad_() if len(contexts) == call else z)
        return (contexts[-1], *args[1:])

    hook = view.model.get_submodule(site.output).register_forward_pre_hook(multiply)
    try:
        logits = view.logits(batch)
    finally:
        hook.remove()
    right = view.loss_of_logits(_wide(logits), batch).neg().exp()
    (gradient,) = torch.autograd.grad(right.sum(), contexts[call])
    return _wide(gradient)


def _largest_attributions(view: View, batch: Batch, gradients: dict[int, list[Tensor]]) -> list[tuple[int, Tensor]]:
    """Largest entry of Attr of each head, (B, H), with the index of its site, for each call. Empties ``gradients``."""
    values: dict[int, Tensor] = {}  # of the current call, (B, S, groups, d_h)
    gates: dict[int, Tensor] = {}  # of contexts, where there are, (B, T, H, d_h)
    largest: list[tuple[int, Tensor]] = []

    def attribute(index: int, rows: Tensor) -> None:
        site = view.heads.sites[index]
        v = _wide(values.pop(index)).repeat_interleave(site.queries_per_group, 2)  # (B, S, H, d_h)
        at_contexts = gradients[index].pop(0)
        if site.layout.output_gate:
            at_contexts = at_contexts * _wide(gates.pop(index)).sigmoid()
        gradient = torch.einsum("bthd,bshd->bhts", at_contexts, v)  # dF/dA
        queries, keys = real_entries(batch, site, rows)
        pairs = (queries[:, :, None] & keys[:, None, :])[:, None]  # (B, 1, T, S)
        largest.append((index, (rows * gradient).masked_fill(~pairs, -torch.inf).amax((2, 3))))

    hooks = [_keep_values(view, index, values) for index in gradients]
    hooks += [_keep_gates(view, index, gates) for index in gradients if view.heads.sites[index].layout.output_gate]
    try:
        with torch.no_grad(), observed(view.model, view.heads, attention=attribute):
            view.logits(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return largest


def _keep_values(view: View, index: int, values: dict[int, Tensor]):
    """Hook a site to store its value vectors in ``values``."""
    site = view.heads.sites[index]

    def keep(module, args, output):
        values[index] = site.of_heads("value", output)

    return view.model.get_submodule(site.projections["value"]).register_forward_hook(keep)


def _keep_gates(view: View, index: int, gates: dict[int, Tensor]):
    """Hook a site to store what the gates of its contexts are the sigmoid of."""
    site = view.heads.sites[index]

    def keep(module, args, output):
        gates[index] = site.of_heads("query", output)[..., site.head_dim :]

    return view.model.get_submodule(site.projections["query"]).register_forward_hook(keep)


def _wide(values: Tensor) -> Tensor:
    """``values`` in float32 or wider."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
