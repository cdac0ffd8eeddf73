"""How the removal of the first heads changes the scores of the others (Figure 2 of Greedy-Gnorm)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from bench.analysis.kept import by_layer, modules_of
from bench.records.arrays import read_arrays
from bench.records.schema import FinishedRecord
from bench.report.figures.canvas import canvas, name_cells
from bench.report.figures.heads.change_map import change_map

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


def score_changes(change: ScoreChange, title: str) -> Figure:
    """A map of the changes with a row for each layer (``bench.report.figures.heads.change_map``)."""
    wide, layers = max(change.shape), len(change.shape)
    figure, axis = canvas(title, "head", "layer", (max(4.4, 0.75 + 0.42 * wide), 0.85 + 0.24 * layers))
    removed = np.isin(np.arange(len(change.change)), change.removed)
    change_map(axis, by_layer(change.change, change.shape), by_layer(removed, change.shape))
    name_cells(axis, range(wide), change.modules)
    return figure
