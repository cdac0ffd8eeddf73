"""Which tokens of a batch are not padding, in the encoder and in the decoder."""

from __future__ import annotations

import torch
from torch import Tensor

from methods.contract.view import Batch
from methods.heads import Site


def real_tokens(batch: Batch, layer: str, tokens: int) -> Tensor:
    """Which of the tokens that a layer reads are not padding: (B, T) bool, on the device of the labels.

    layer: its path. Those of a decoder read the targets, where the batch has some. tokens: T; images have no padding.

    Raises ValueError if the batch does not say which tokens of that length are padding.
    """
    prefix = "decoder_" if "decoder" in layer.split(".") and "decoder_input_ids" in batch.inputs else ""
    mask = batch.inputs.get(f"{prefix}attention_mask")
    shape = len(batch.labels), tokens
    if mask is None and f"{prefix}input_ids" not in batch.inputs:  # images
        return torch.ones(shape, dtype=torch.bool, device=batch.labels.device)
    if mask is None or mask.shape != shape:
        raise ValueError(f"the batch has no {prefix}attention_mask that fits {layer}: its padding is unknown")
    return mask.bool()


def real_entries(batch: Batch, site: Site, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Which queries, (B, T) bool, and which keys, (B, S) bool, of attention ``rows``, (B, H, T, S), are not padding.

    Keys of cross attention are tokens of the source. On the device of ``rows``. Raises as ``real_tokens`` does.
    """
    queries = real_tokens(batch, site.name, rows.shape[2]).to(rows.device)
    source = "encoder" if site.kind == "cross" else site.name
    return queries, real_tokens(batch, source, rows.shape[3]).to(rows.device)
