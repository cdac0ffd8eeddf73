"""HIES: importance of the attention map for the loss, together with how focused it is."""

from typing import Annotated, Literal

import torch
from torch import Tensor

from methods import AtLeast, AtMost, View, scorer
from methods.calibration.padding import real_entries
from methods.heads import observed
from methods.tis import tis


@scorer("hies", source="HIES 2025, arXiv 2510.13832")
def hies(
    view: View,
    *,
    weight: Annotated[float, "weight of the importance; the entropy has the rest", AtLeast(0), AtMost(1)] = 0.5,
    sign: Annotated[
        Literal["focused", "spread"], "heads to keep by entropy: focused ones, or those that the paper's appendix says"
    ] = "focused",
) -> Tensor:
    """Mixture of the head importance score and one minus the attention entropy, both scaled to 0..1 over the units.

        importance(h) = a HIS_h + (1 - a) (1 - AE_h)

    HIS is ``tis``. AE is the entropy of the rows of the attention map, a mean over the tokens of a text, over log n for
    a text of n tokens, the source in cross attention; padding takes no part, and attention to a text of one token has
    entropy 0. The paper tunes a for each task and ratio, and gives no values: the default weighs both alike, and
    should not be tuned on test data. Its appendix has the opposite sign of AE in one place, ``sign=spread``. Takes one
    pass forward and backward, and one forward. Returns (units,).

    Source: "HIES", arXiv 2510.13832v2.
    """
    entropy = _scaled(normalised_entropy(view), view)
    return weight * _scaled(tis(view), view) + (1 - weight) * (1 - entropy if sign == "focused" else entropy)


def normalised_entropy(view: View) -> Tensor:
    """Mean over texts, then tokens, of the entropy of a row of attention to n tokens over log n: (units,), 0 to 1.

    A unit has the mean of its heads, a tied layer that of its calls.
    """
    totals = [torch.zeros(size, dtype=torch.float64) for size in view.heads.shape]

    def add(index: int, rows: Tensor) -> None:  # (B, H, T, S)
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
        entropy = -torch.xlogy(rows, rows).sum(-1)  # (B, H, T)
        queries, keys = real_entries(batch, view.heads.sites[index], rows)
        weights, length = queries.to(rows), keys.to(rows).sum(1)
        share = torch.where(length > 1, 1 / (weights.sum(1) * length.clamp_min(2).log()), 0.0)
        of_heads = torch.einsum("bht,bt,b->h", entropy, weights, share).double().cpu()
        totals[index] += view.per_unit(index, of_heads) / view.heads.sites[index].calls

    with torch.no_grad(), observed(view.model, view.heads, attention=add):
        for batch in view.batches:
            view.logits(batch)
    return torch.cat(totals) / view.examples


def _scaled(values: Tensor, view: View) -> Tensor:
    """``values`` moved and stretched so that the units left range from 0 to 1; all 0 where they are all alike."""
    left = values[view.kept]
    if not len(left) or left.max() == left.min():
        return torch.zeros_like(values)
    return (values - left.min()) / (left.max() - left.min())
