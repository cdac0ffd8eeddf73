"""The inputs of the output projections over the calibration set, token by token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from methods.calibration.padding import real_tokens
from methods.contract.view import View
from methods.heads import observed


def each_context(view: View, take: Callable[[int, Tensor, Tensor], None]) -> None:
    """Call ``take(site, tokens, texts)`` once for each batch and each call of each site, in one forward pass.

    tokens: (N, H, d_h), the contexts of the N tokens that are not padding, in float32 or wider, with no graph. In cross
        attention they are those of the queries. texts: (N,), the index of the text of each token in its batch.

    Raises ValueError if a batch does not say which tokens are padding.
    """

    def context(site: int, z: Tensor) -> None:
        real = real_tokens(batch, view.heads.sites[site].name, z.shape[1]).to(z.device)
        wide = torch.promote_types(z.dtype, torch.float32)
        take(site, z[real].to(wide), real.nonzero()[:, 0])

    with torch.no_grad(), observed(view.model, view.heads, context=context):
        for batch in view.batches:
            view.logits(batch)
