"""Attention entropy."""

from typing import Annotated, Literal

import torch
from torch import Tensor

from methods import AtLeast, View, scorer
from methods.calibration.padding import real_entries
from methods.heads import observed


@scorer("ae", source="Guo & Sheridan, attention-entropy baseline", variants={"inverse-ae": {"inverse": True}})
def attention_entropy(
    view: View,
    *,
    variant: Annotated[
        Literal["A", "B", "C"], "A: -sum a log a; B: -sum a log(a+eps); C: -sum (a+eps) log(a+eps)"
    ] = "C",
    eps: Annotated[float, "epsilon of variants B and C", AtLeast(0)] = 1e-7,
) -> Tensor:
    """Minus the mean entropy of a head's attention: heads that spread their attention most are removed first.

        importance(h) = mean over examples, then over queries t, of sum_s a_ts log(a_ts)  (``variant=A``; natural log)

    Padded queries and keys do not count; in cross attention t is a token of the target and s one of the source. A unit
    has the mean of its heads, over all layers that are tied. ``inverse-ae`` removes the most focused head first. (The
    paper's sentence on Inverse-AE can also be read the other way round; the literature takes low entropy as a sign of
    importance, and so does ``ae``.) Returns (units,).

    Source: Guo & Sheridan, "Greedy-Gnorm", 2026, arXiv 2602.04491, the attention-entropy baseline.
    """
    totals = [torch.zeros(size, dtype=torch.float64) for size in view.heads.shape]

    def add(site: int, rows: Tensor) -> None:
        queries, keys = real_entries(batch, view.heads.sites[site], rows)
        mean = _entropy(rows, queries, keys, variant, eps)  # (B, H)
        totals[site] += view.per_unit(site, mean.sum(0).double().cpu())

    with torch.no_grad(), observed(view.model, view.heads, attention=add):
        for batch in view.batches:
            view.logits(batch)
    calls = torch.tensor([site.calls for site in view.heads.sites])  # above 1 for tied layers
    return -torch.cat(totals) / (view.examples * calls[view.heads.site_of_unit])


def _entropy(rows: Tensor, queries: Tensor, keys: Tensor, variant: str, eps: float) -> Tensor:
    """Entropy averaged over the queries that are not padding: rows (B, H, T, S), which entries are real: (B, H)."""
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    terms = -torch.xlogy(rows + (eps if variant == "C" else 0.0), rows + (0.0 if variant == "A" else eps))
    weight = queries.to(rows.dtype)
    entropy = torch.einsum("bhts,bt,bs->bh", terms, weight, keys.to(rows.dtype))
    return entropy / weight.sum(1, keepdim=True)
