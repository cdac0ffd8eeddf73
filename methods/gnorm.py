"""Gradient norms of the query, key and value weights (Guo & Sheridan, "Greedy-Gnorm")."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

from methods.contract.registry import scorer
from methods.contract.view import View
from methods.heads.incremental import observed_backward

PARTS = ("query", "key", "value")
COMBINE = {
    "product": lambda q, k, v: q * k * v,
    "sum": lambda q, k, v: q + k + v,
    "max": lambda *n: torch.stack(n).amax(0),
}


@scorer(
    "gnorm",
    source="Guo & Sheridan, Eq. 15",
    batch_dependent={"variant": "batch"},
    variants={
        "greedy-gnorm": {"recompute": 1},
        "inverse-gnorm": {"recompute": 1, "inverse": True},
    },
)
def gnorm(
    view: View,
    *,
    objective: Annotated[
        Literal["logits", "loss"], "what is differentiated: L2 norm of the logits, or task loss"
    ] = "logits",
    combine: Annotated[Literal["product", "sum", "max"], "how the three norms are combined"] = "product",
    variant: Annotated[
        Literal["sentence", "batch"], "norm per sentence (Eq. 15), or of a batch as in the published code"
    ] = "sentence",
) -> Tensor:
    """Product over W_Q, W_K, W_V of a head's mean gradient norm, E_x || d s(x) / d W ||_F.

    No weight gradient is formed: with X the projection's input and G the gradient at its output, both for one sentence,
    the norm of the weight gradient X^T G follows from X and G, for all heads and sentences of a batch at once. Where
    heads share keys and values, each query head takes the norms of its group; a layer that runs several times sums its
    gradients before the norm is taken. ``variant="batch"`` depends on the batch size and is there for comparison.
    Returns (units,).

    Source: Guo & Sheridan, "Greedy-Gnorm", 2026, arXiv 2602.04491, Eq. 15.
    """
    totals: dict[tuple[int, str], Tensor] = {}
    count = 0
    for place, batch in enumerate(view.batches):
        count += len(batch.labels) if variant == "sentence" else 1
        for part, norms in _norms(view, place, objective, variant).items():
            totals[part] = norms.double().sum(0).cpu() + totals.get(part, 0.0)  # (heads,)
    importance = [torch.empty(0, dtype=torch.float64)]
    for index, site in enumerate(view.heads.sites):
        if site.num_heads:
            # Where cross attention has no heads left, no gradient reaches the encoder.
            nothing = (torch.zeros(site.heads_of(part), dtype=torch.float64) for part in PARTS)
            query, key, value = (
                totals.get((index, part), zeros) / count for part, zeros in zip(PARTS, nothing, strict=True)
            )
            shared = (norm.repeat_interleave(site.queries_per_group) for norm in (key, value))
            importance.append(view.per_unit(index, COMBINE[combine](query, *shared)))
    return torch.cat(importance)


def _norms(view: View, place: int, objective: str, variant: str) -> dict[tuple[int, str], Tensor]:
    """Gradient norms of one batch by site and part: (sentences, heads), or (1, heads) for a whole batch."""
    batch = view.batches[place]

    def value() -> Tensor:
        if objective == "loss":
            each = view.loss(batch)
            return each.sum() if variant == "sentence" else each.mean()
        logits = view.logits(batch)
        wide = torch.promote_types(logits.dtype, torch.float32)
        norms = torch.linalg.vector_norm(logits.flatten(1 if variant == "sentence" else 0), dim=-1, dtype=wide)
        return norms.sum()

    collected = _Collected(view, variant)
    observed_backward(value, view.model, view.heads, collected.add, view.memory, place)
    return collected.norms


class _Collected:
    """Collects the norms of one batch from the backward pass."""

    def __init__(self, view: View, variant: str) -> None:
        self._calls_of_site = [site.calls for site in view.heads.sites]
        self._variant = variant
        self._calls: dict[tuple[int, str], list[tuple[Tensor, Tensor]]] = {}
        self.norms: dict[tuple[int, str], Tensor] = {}

    def add(self, site: int, inputs: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        for part in PARTS:
            x, g = inputs[part], gradients[part]  # (B, T, d), (B, T, heads, d_h)
            if self._variant == "batch":
                x, g = x.flatten(0, 1)[None], g.flatten(0, 1)[None]
            calls = self._calls.setdefault((site, part), [])
            calls.append((x, g))
            if len(calls) == self._calls_of_site[site]:
                # X^T G summed over the calls of a tied layer is X^T G of all calls joined to one long text.
                xs, gs = zip(*self._calls.pop((site, part)), strict=True)
                self.norms[site, part] = weight_gradient_norm(torch.cat(xs, 1), torch.cat(gs, 1))


def weight_gradient_norm(x: Tensor, g: Tensor) -> Tensor:
    """Frobenius norm of X^T G for each sentence and head: x (B, T, d), g (B, T, heads, d_h) to (B, heads).

    For short sentences, ||X^T G||^2 = <X X^T, G G^T> is cheaper: T^2 (d + heads d_h) products instead of T d heads d_h,
    and T^2 heads terms to sum; the two cost the same near T = d / 3.
    """
    x, g = (values.to(torch.promote_types(values.dtype, torch.float32)) for values in (x, g))
    if 3 * x.shape[1] > x.shape[2]:
        return torch.einsum("btd,bthe->bhde", x, g).flatten(2).norm(dim=2)
    g = g.transpose(1, 2)  # (B, heads, T, d_h)
    inner = (x @ x.mT)[:, None] * (g @ g.mT)  # (B, heads, T, T)
    return inner.sum((2, 3)).clamp_min(0).sqrt()
