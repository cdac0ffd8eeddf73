"""Attention maps of texts of any length at one size, and what they are like in each class of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from methods.calibration.padding import real_entries
from methods.contract.view import View
from methods.heads import observed

SIDE = 32  # rows and columns of a map after resizing


@dataclass(frozen=True)
class ClassMaps:
    """Mean and variance over the texts of each class of the maps of one call of a site.

    site: its index. mean, variance: (classes, H, SIDE * SIDE) each, float64 on the CPU; the classes are those that the
    calibration set has texts of, in order. The variance is that of these texts, divided by their number.
    """

    site: int
    mean: Tensor
    variance: Tensor


def class_maps(view: View) -> Iterator[ClassMaps]:
    """The maps of every call of every site with heads, by site, from one forward pass.

    A map is that of the tokens that are not padding, resized bilinearly (corners not aligned, not smoothed).
    """
    labels = torch.cat([batch.labels.cpu() for batch in view.batches])
    classes, counts = labels.unique(return_counts=True)
    sums: dict[tuple[int, int], Tensor] = {}  # by site and call: of maps and of their squares, (2, classes, H, pixels)
    calls: Counter[int] = Counter()

    def add(site: int, rows: Tensor) -> None:  # (B, H, T, S)
        queries, keys = real_entries(batch, view.heads.sites[site], rows)
        maps = torch.stack([_resized(*text) for text in zip(rows, queries, keys, strict=True)])
        powers = torch.stack([maps, maps.square()]).cpu()  # where sums have the same order each time
        empty = powers.new_zeros(2, len(classes), *maps.shape[1:])
        place = (site, calls[site])
        sums[place] = sums.get(place, 0.0) + empty.index_add_(1, which, powers)
        calls[site] += 1

    with torch.no_grad(), observed(view.model, view.heads, attention=add):
        for batch in view.batches:
            calls.clear()
            which = torch.searchsorted(classes, batch.labels.cpu())
            view.logits(batch)
    for site, call in sorted(sums):
        mean, square = sums[site, call] / counts[:, None, None]
        yield ClassMaps(site, mean, (square - mean.square()).clamp_min(0.0))


def _resized(rows: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """The attention of one text, (H, T, S), without padding: (H, SIDE * SIDE) in float64.

    queries, keys: (T,) and (S,) bool, those that are not padding.
    """
    wide = rows[:, queries][:, :, keys].to(torch.promote_types(rows.dtype, torch.float32))
    return F.interpolate(wide[None], size=(SIDE, SIDE), mode="bilinear", align_corners=False)[0].flatten(1).double()
