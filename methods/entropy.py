"""Attention entropy: how widely a head spreads its attention."""

from typing import Annotated, Literal

import torch
from torch import Tensor

from methods.contract.options import AtLeast
from methods.contract.registry import scorer
from methods.contract.view import View
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
    """Minus the mean entropy, in nats, of a head's attention rows: the most spread-out head goes first.

    Rows of padded queries and keys that are padding do not count; the mean is over a text's rows, then over texts.
    ``inverse-ae`` removes the most focused head first. (The paper's sentence on Inverse-AE can be read the other way
    round; the literature holds low entropy to be important, and so does ``ae``.) Returns (units,).
    """
    totals = [torch.zeros(size, dtype=torch.float64) for size in view.heads.shape]
    real = torch.empty(0)  # (B, T), of the batch at hand

    def add(site: int, rows: Tensor) -> None:
        mean = _entropy(rows, real.to(rows.device), variant, eps)  # (B, H)
        totals[site] += view.per_unit(site, mean.sum(0).double().cpu())

    with torch.no_grad(), observed(view.model, view.heads, attention=add):
        for batch in view.batches:
            real = batch.inputs["attention_mask"]
            view.logits(batch)
    calls = torch.tensor([site.calls for site in view.heads.sites])  # a tied layer's rows count in each layer
    return -torch.cat(totals) / (view.examples * calls[view.heads.site_of_unit])


def _entropy(rows: Tensor, real: Tensor, variant: str, eps: float) -> Tensor:
    """Entropy averaged over real query rows: rows (B, H, T, S) and real (B, T) to (B, H)."""
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    terms = -torch.xlogy(rows + (eps if variant == "C" else 0.0), rows + (0.0 if variant == "A" else eps))
    weight = real.to(rows.dtype)  # (B, T); self-attention, so keys are padded where queries are
    entropy = torch.einsum("bhts,bt,bs->bh", terms, weight, weight)
    return entropy / weight.sum(1, keepdim=True)
