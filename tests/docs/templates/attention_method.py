"""Score heads by their attention maps."""

import torch
from torch import Tensor

from methods import View, scorer
from methods.heads import observed


@scorer("confidence", source="after Voita et al. 2019, Section 4")
def confidence(view: View) -> Tensor:
    """Mean of the largest attention weight of each query.

        importance(h) = mean over examples, then over queries t, of max_s A_h[t, s]

    Padding does not count. A unit has the mean of its heads, over all layers that are tied. Returns (units,).
    """
    totals = [torch.zeros(size, dtype=torch.float64) for size in view.heads.shape]  # by site, one entry per unit
    real = torch.empty(0)  # (B, T), attention mask of the current batch

    def add(site: int, maps: Tensor) -> None:  # once per call of an attention module; maps: (B, H, T, T)
        mask = real.to(maps.device, torch.float32)  # 0 for padding
        largest = (maps.float() * mask[:, None, None, :]).amax(3)  # (B, H, T), over keys
        mean = (largest * mask[:, None, :]).sum(2) / mask.sum(1, keepdim=True)  # (B, H), over queries
        totals[site] += view.per_unit(site, mean.sum(0).double().cpu())  # with grouped heads, a unit has several heads

    with torch.no_grad(), observed(view.model, view.heads, attention=add):
        for batch in view.batches:
            real = batch.inputs["attention_mask"]
            view.logits(batch)
    calls = torch.tensor([site.calls for site in view.heads.sites])  # more than one for tied layers
    return torch.cat(totals) / (view.examples * calls[view.heads.site_of_unit])
