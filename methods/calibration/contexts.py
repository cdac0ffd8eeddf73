"""The inputs of the output projections over the calibration set, token by token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from methods.contract.view import Batch, View
from methods.heads import observed


def each_context(view: View, take: Callable[[int, Tensor, Tensor], None]) -> None:
    """Call ``take(site, tokens, texts)`` once for each batch and each call of each site, in one forward pass.

    tokens: (N, H, d_h), the contexts of the N tokens that are not padding, in float32 or wider, with no graph. In cross
        attention they are those of the queries. texts: (N,), the index of the text of each token in its batch.

    Raises ValueError if a batch does not say which tokens are padding.
    """

    def context(site: int, z: Tensor) -> None:
        real = _real(view, batch, site, z)
        wide = torch.promote_types(z.dtype, torch.float32)
        take(site, z[real].to(wide), real.nonzero()[:, 0])

    with torch.no_grad(), observed(view.model, view.heads, context=context):
        for batch in view.batches:
            view.logits(batch)


def _real(view: View, batch: Batch, site: int, z: Tensor) -> Tensor:
    """Which tokens of ``z``, (B, T, H, d_h), are not padding: (B, T) bool."""
    name = view.heads.sites[site].name
    of_decoder = "decoder" in name.split(".") and any(each.kind == "cross" for each in view.heads.sites)
    prefix = "decoder_" if of_decoder and "decoder_input_ids" in batch.inputs else ""
    mask = batch.inputs.get(f"{prefix}attention_mask")
    if mask is None and f"{prefix}input_ids" not in batch.inputs:  # images
        return torch.ones(z.shape[:2], dtype=torch.bool, device=z.device)
    if mask is None or mask.shape != z.shape[:2]:
        raise ValueError(f"the batch has no {prefix}attention_mask that fits {name}: its padding is unknown")
    return mask.to(z.device).bool()
