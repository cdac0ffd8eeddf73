"""How the removal of the first heads changes the scores of the others (Figure 2 of Greedy-Gnorm)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from bench.records.arrays import read_arrays
from bench.records.schema import FinishedRecord
from bench.report.figures.canvas import canvas, cell_map, name_cells
from bench.report.figures.heads import by_layer, modules_of

NAME = "scores.0"  # of the first draw


@dataclass(frozen=True)
class ScoreChange:
    """Relative change of each unit's score after the first removal, (units,); NaN for units that were removed."""

    change: np.ndarray
    removed: np.ndarray  # units removed between the two scorings
    shape: tuple[int, ...]  # units of each attention module
    modules: Sequence[int | str]  # names of these
    seed: int


def score_change(records: Mapping[Path, FinishedRecord]) -> ScoreChange | None:
    """The change in the first seed; None where units are scored once, or the records hold no scores."""
    for path, record in records.items():
        scores = read_arrays(path).get(NAME)
        if scores is None or len(scores) < 2:
            return None
        scores = scores.astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = (scores[1] - scores[0]) / np.abs(scores[0])
        removed = np.flatnonzero(np.isnan(scores[1]) & ~np.isnan(scores[0]))
        return ScoreChange(change, removed, tuple(record.result.shape), modules_of(record), record.cell.seed)
    return None


def score_changes(found: ScoreChange, title: str) -> Figure:
    """One cell per head, one row per layer: the change in per cent; a cross marks the heads that were removed."""
    wide, layers = max(found.shape), len(found.shape)
    figure, axis = canvas(title, "head", "layer", (max(4.4, 0.75 + 0.42 * wide), 0.85 + 0.24 * layers))
    known = np.abs(found.change[np.isfinite(found.change)])
    largest = known.max() if known.size and known.max() > 0 else 1.0
    fill = np.nan_to_num(np.minimum(np.abs(found.change) / largest, 1), nan=0.0, posinf=1.0)
    start = np.cumsum([0, *found.shape])

    def text(row: int, column: int) -> str:
        unit = start[row] + column
        value = found.change[unit]
        return "×" if unit in found.removed else _per_cent(value) if np.isfinite(value) else ""

    cell_map(axis, by_layer(fill, found.shape), text)
    name_cells(axis, range(wide), found.modules)
    return figure


def _per_cent(share: float) -> str:
    return f"{100 * share:+.0f}" if round(100 * share) else "0"
