"""A map of how a value of each head changed: one colour for rises, another for falls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from bench.report.figures.canvas import FILLED, cell_map
from bench.report.figures.picture import MUTED, SERIES

LEGEND = "blue where it rose, orange where it fell, the fuller the more; a grey × marks what was removed"


def change_map(axis: Axes, changes: Sequence[np.ndarray], removed: Sequence[np.ndarray], size: float = 7) -> None:
    """The relative changes in per cent, one row per layer, as ``LEGEND`` says; empty where there is none.

    changes: NaN where there is none, infinite from 0. removed: of each layer, (heads,) bool.
    """
    shown = [np.where(gone, np.nan, row) for row, gone in zip(changes, removed, strict=True)]
    largest = max((abs(value) for row in shown for value in row if np.isfinite(value)), default=0.0) or 1.0
    fills = [np.clip(np.nan_to_num(row / largest, nan=0.0), -1, 1) for row in shown]

    def text(row: int, column: int) -> str:
        value = shown[row][column]
        return _per_cent(value) if np.isfinite(value) else ""

    cell_map(axis, [np.maximum(row, 0) for row in fills], text, blank=True, size=size)
    cell_map(axis, [np.maximum(-row, 0) for row in fills], colour=SERIES[1], blank=True)
    for y, row in enumerate(removed):
        for x in np.flatnonzero(row):
            axis.text(x + FILLED / 2, y + FILLED / 2, "×", ha="center", va="center", fontsize=size, color=MUTED)


def _per_cent(share: float) -> str:
    return f"{100 * share:+.0f}" if round(100 * share) else "0"
