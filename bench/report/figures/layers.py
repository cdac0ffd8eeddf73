"""Heads kept in each layer, by budget and kind of method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from bench.report.figures.lines import DASHES
from bench.report.figures.picture import FAINT, MUTED
from bench.report.figures.ranks import ROLES
from bench.report.kept import Kept, heads_kept

ACROSS = 3  # panels side by side
PANEL = (2.35, 1.75)  # inches


def layers_by_kind(found: Kept, levels: Sequence[int], title: str, random: str) -> Figure:
    """A panel for each of ``levels``, heads removed: the mean of each kind, and a thin line for each method in it.

    random: the control that removes at random, dotted; empty for none.
    """
    across = 2 if len(levels) == 4 else min(ACROSS, len(levels))
    down = -(-len(levels) // across)
    wide, high = 0.5 + across * PANEL[0], 0.95 + down * PANEL[1]
    figure = Figure(figsize=(wide, high))
    figure.subplots_adjust(
        left=0.5 / wide, right=1 - 0.1 / wide, bottom=0.75 / high, top=1 - 0.5 / high, wspace=0.2, hspace=0.6
    )
    figure.text(0.05 / wide, 1 - 0.05 / high, title, va="top", fontsize=9.5)
    grid = figure.subplots(down, across, squeeze=False, sharey=True)
    x = np.arange(len(found.shape))
    handles: dict[str, Artist] = {}
    for axis in grid.flat[len(levels) :]:
        axis.axis("off")
    for axis, removed in zip(grid.flat, levels, strict=False):
        for label, by_level in found.shares.items():
            if removed in by_level and label in found.averaged:
                (handles["each method"],) = axis.plot(x, heads_kept(by_level[removed]), color=FAINT, linewidth=0.6)
        if removed in found.shares.get(random, {}):
            (handles["random"],) = axis.plot(x, heads_kept(found.shares[random][removed]), color=MUTED, linestyle=":")
        for own, numbers in found.by_kind(removed).items():
            marker, colour, _ = ROLES[own]
            (handles[own],) = axis.plot(
                x, numbers, color=colour, marker=marker, markersize=4, linestyle=DASHES[own], linewidth=1.6
            )
        axis.set_title(f"{found.units - removed} of {found.units} kept", fontsize=8.5, loc="left")
        axis.set_ylim(0, 1.05 * max(found.shape))
        axis.set_xticks(x[:: 1 + len(x) // 12])
    for axis in grid[:, 0]:
        axis.set_ylabel("heads kept")
    for axis in grid.flat[max(0, len(levels) - across) : len(levels)]:
        axis.set_xlabel("layer")
    figure.legend(list(handles.values()), list(handles), loc="lower left", ncols=5, fontsize=8.5, borderaxespad=0.3)
    return figure
