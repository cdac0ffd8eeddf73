"""What the removal of one head does to the scores of the others (Figure 2 of Greedy-Gnorm)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from safetensors.numpy import load_file

from bench.records.schema import FinishedRecord
from bench.report.figures.curves import canvas
from bench.report.figures.heads import GAP, by_layer, cells_of_layers
from bench.report.figures.picture import INK

NAME = "scores.0"  # of the first draw


@dataclass(frozen=True)
class Shift:
    """Change of each unit's score after the first removal, in its own earlier size, (units,); NaN for what is gone."""

    change: np.ndarray
    gone: np.ndarray  # units removed between the two scorings
    shape: tuple[int, ...]
    seed: int


def shift(records: Mapping[Path, FinishedRecord]) -> Shift | None:
    """Of the first seed; None where nothing is scored twice, or the records hold no scores."""
    for path, record in records.items():
        scores = load_file(path.with_suffix(".safetensors")).get(NAME)
        if scores is None or len(scores) < 2:
            return None
        scores = scores.astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = (scores[1] - scores[0]) / np.abs(scores[0])
        gone = np.flatnonzero(np.isnan(scores[1]) & ~np.isnan(scores[0]))
        return Shift(change, gone, tuple(record.result.shape), record.cell.seed)
    return None


def shifts(found: Shift, title: str) -> Figure:
    """A cell a head, a row a layer: the change in per cent, fuller where it is larger; a cross where a head went."""
    wide = max(found.shape)
    figure, axis = canvas(title, "head", "layer", (max(4.4, 0.75 + 0.42 * wide), 0.85 + 0.24 * len(found.shape)))
    known = np.abs(found.change[np.isfinite(found.change)])
    largest = known.max() if known.size and known.max() > 0 else 1.0
    fill = np.nan_to_num(np.minimum(np.abs(found.change) / largest, 1), nan=0.0, posinf=1.0)
    cells_of_layers(axis, by_layer(fill, found.shape))
    for row, (values, units) in enumerate(
        zip(by_layer(found.change, found.shape), by_layer(np.arange(len(found.change)), found.shape), strict=True)
    ):
        for column, (value, unit) in enumerate(zip(values, units, strict=True)):
            told = "×" if unit in found.gone else f"{100 * value:+.0f}" if np.isfinite(value) else ""
            axis.text(column + GAP / 2, row + GAP / 2, told, ha="center", va="center", fontsize=7, color=INK)
    axis.set_xticks(np.arange(wide) + 0.5, [str(head) for head in range(wide)])
    axis.set_yticks(np.arange(len(found.shape)) + 0.5, [str(layer) for layer in range(len(found.shape))])
    return figure
