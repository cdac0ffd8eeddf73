"""Self-attention attribution: integrated gradients over a layer's attention maps (Hao et al. 2021)."""

from collections import defaultdict
from collections.abc import Callable
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

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
    count. Tied layers are attributed one at a time and averaged; a unit has the mean of its heads. Takes ``steps``
    forward and backward passes per layer, and one more forward pass with eager attention. Returns (units,).

    Source: Hao, Dong, Wei & Xu, "Self-Attention Attribution: Interpreting Information Interactions Inside Transformer",
    AAAI 2021.
    """
    # Contexts are linear in A: alpha A has the context alpha z, and dF/dA[t,s] = <dF/dz[t], dz[t]/dA[t,s]>. As what is
    # weighted by A does not depend on alpha, gradients at contexts are averaged over alpha first, and then taken to A.
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
    losses = view.loss_of_logits(_wide(logits), batch)  # (B,)
    if not losses.requires_grad:  # an encoder that no head of cross attention reads
        return torch.zeros_like(_wide(contexts[call]))
    (gradient,) = torch.autograd.grad(losses.sum(), contexts[call], materialize_grads=True)
    # dF = -exp(-loss) dloss. The factor comes last, as half precision has no room for small gradients.
    return _wide(gradient) * losses.detach().neg().exp().neg().to(gradient.device)[:, None, None]


def _largest_attributions(view: View, batch: Batch, gradients: dict[int, list[Tensor]]) -> list[tuple[int, Tensor]]:
    """Largest entry of Attr of each head, (B, H), with the index of its site, for each call. Empties ``gradients``."""
    seen: dict[int, dict[str, Tensor]] = defaultdict(dict)  # of the current call: rows of A, and z
    largest: list[tuple[int, Tensor]] = []

    def keep(name: str) -> Callable[[int, Tensor], None]:
        def callback(index: int, values: Tensor) -> None:
            seen[index][name] = values
            if len(seen[index]) == 2:  # either may come first
                attribute(index, **seen.pop(index))

        return callback

    def attribute(index: int, rows: Tensor, contexts: Tensor) -> None:
        at_contexts = gradients[index].pop(0)
        scale = at_contexts.abs().amax().clamp_min(torch.finfo(at_contexts.dtype).tiny)  # for half precision
        (gradient,) = torch.autograd.grad(contexts, rows, (at_contexts / scale).to(contexts.dtype))  # dF/dA
        queries, keys = real_entries(batch, view.heads.sites[index], rows)
        pairs = (queries[:, :, None] & keys[:, None, :])[:, None]  # (B, 1, T, S)
        attributions = (_wide(rows) * _wide(gradient) * scale).detach()
        largest.append((index, attributions.masked_fill(~pairs, -torch.inf).amax((2, 3))))

    with torch.enable_grad(), observed(view.model, view.heads, attention=keep("rows"), context=keep("contexts")):
        hooks = [hook for index in gradients for hook in _graph_inside(view, view.heads.sites[index])]
        try:
            view.logits(batch)
        finally:
            for hook in hooks:
                hook.remove()
    return largest


def _graph_inside(view: View, site: Site) -> list[RemovableHandle]:
    """Hook a site so that its contexts have a graph to its attention map, which begins and ends inside it."""
    queries, output = (view.model.get_submodule(path) for path in (site.projections["query"], site.output))
    return [
        queries.register_forward_hook(lambda module, args, projected: projected.detach().requires_grad_().clone()),
        output.register_forward_pre_hook(lambda module, args: (args[0].detach(), *args[1:])),
    ]


def _wide(values: Tensor) -> Tensor:
    """``values`` in float32 or wider."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
