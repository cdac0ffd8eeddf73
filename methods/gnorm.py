"""Gradient norms of the query, key and value weights (Guo & Sheridan, "Greedy-Gnorm")."""

from typing import Annotated, Literal

import torch
from torch import Tensor

from methods.heads import observed
from methods.registry import scorer
from methods.view import Batch, View

PARTS = ("query", "key", "value")
COMBINE = {
    "product": lambda q, k, v: q * k * v,
    "sum": lambda q, k, v: q + k + v,
    "max": lambda *n: torch.stack(n).amax(0),
}


@scorer(
    "gnorm",
    source="Guo & Sheridan, Eq. 15",
    variants={
        "greedy-gnorm": {"schedule": "greedy"},
        "inverse-gnorm": {"schedule": "greedy", "inverse": True},
    },
)
def gnorm(
    view: View,
    *,
    objective: Annotated[
        Literal["logits", "loss"], "what is differentiated: L2 norm of the logits, or task loss"
    ] = "logits",
    combine: Annotated[Literal["product", "sum", "max"], "how the three norms become one"] = "product",
    variant: Annotated[
        Literal["sentence", "batch"], "norm per sentence (Eq. 15), or of a batch as in the published code"
    ] = "sentence",
) -> Tensor:
    """Product over W_Q, W_K, W_V of a head's mean gradient norm, E_x || d s(x) / d W ||_F. Returns (units,).

    No weight gradient is formed: with X the projection's input and G the gradient at its output, both for one sentence,
    the norm of the weight gradient X^T G follows from X and G, for all heads and sentences of a batch at once. Where
    heads share keys and values, each query head takes its group's norms; a layer that is run several times sums its
    gradients before the norm is taken. ``variant="batch"`` depends on the batch size and is there for comparison.
    """
    totals: list[dict[str, Tensor]] = [{} for _ in view.heads.sites]
    count = 0
    for batch in view.batches:
        count += len(batch.labels) if variant == "sentence" else 1
        for total, norms in zip(totals, _norms(view, batch, objective, variant), strict=True):
            for part, norm in norms.items():
                total[part] = norm.double().sum(0).cpu() + total.get(part, 0.0)  # (heads,)
    importance = []
    for index, (site, total) in enumerate(zip(view.heads.sites, totals, strict=True)):
        queries_per_key = site.num_heads // max(1, site.num_key_value_heads)
        query, key, value = (total[part] / count for part in PARTS)
        shared = (norm.repeat_interleave(queries_per_key) for norm in (key, value))
        importance.append(view.per_unit(index, COMBINE[combine](query, *shared)))
    return torch.cat(importance)


def _norms(view: View, batch: Batch, objective: str, variant: str) -> list[dict[str, Tensor]]:
    """Gradient norms of one batch: for every site and part, (sentences, heads), or (1, heads) for a whole batch."""
    norms: list[dict[str, Tensor]] = [{} for _ in view.heads.sites]
    tied: dict[tuple[int, str], Tensor] = {}

    def add(site: int, inputs: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        for part in PARTS:
            x, g = inputs[part], gradients[part]  # (B, T, d), (B, T, heads, d_h)
            if variant == "batch":
                x, g = x.flatten(0, 1)[None], g.flatten(0, 1)[None]
            if view.heads.sites[site].calls == 1:
                norms[site][part] = weight_gradient_norm(x, g)
            else:
                tied[site, part] = tied.get((site, part), 0.0) + torch.einsum("btd,bthe->bhde", x, g)

    with observed(view.model, view.heads, gradients=add):
        if objective == "loss":
            each = view.loss(batch)
            total = each.sum() if variant == "sentence" else each.mean()
        else:
            logits = view.logits(batch)
            total = logits.flatten(1).norm(dim=1).sum() if variant == "sentence" else logits.norm()
        total.backward()
    for (site, part), gradient in tied.items():
        norms[site][part] = gradient.flatten(2).norm(dim=2)
    return norms


def weight_gradient_norm(x: Tensor, g: Tensor) -> Tensor:
    """Frobenius norm of X^T G for each sentence and head: x (B, T, d), g (B, T, heads, d_h) to (B, heads).

    ||X^T G||^2 = <X X^T, G G^T> costs T^2 (d + d_h) a head instead of T d d_h, which is less for short sentences.
    """
    if 2 * x.shape[1] > x.shape[2]:
        return torch.einsum("btd,bthe->bhde", x, g).flatten(2).norm(dim=2)
    inputs = x @ x.mT  # (B, T, T)
    outputs = torch.einsum("bthe,bshe->bhts", g, g)
    return torch.einsum("bts,bhts->bh", inputs, outputs).clamp_min(0).sqrt()
