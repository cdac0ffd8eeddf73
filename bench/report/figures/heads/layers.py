"""Heads kept in each layer, by budget and kind of method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.figures.canvas import TITLE_ROW, heading, wrapped
from bench.report.figures.looks import DASHES
from bench.report.figures.picture import FAINT, MUTED
from bench.report.figures.ranks import ROLES
from bench.report.kept import Kept, heads_kept

ACROSS = 3  # panels side by side
PANEL = (2.35, 1.75)  # inches


def layers_by_kind(kept: Kept, levels: Sequence[int], title: str, random: str) -> Figure:
    """A panel for each of ``levels``, heads removed: the mean of each kind, and a thin line for each method in it.

    random: the control that removes at random, dotted; empty for none.
    """
    across = 2 if len(levels) == 4 else min(ACROSS, len(levels))
    down = -(-len(levels) // across)
    wide = 0.5 + max(2, across) * PANEL[0]  # the legend has no room above one
    lines = wrapped(title, wide)
    more = TITLE_ROW * (len(lines) - 1)
    high = 0.95 + more + down * PANEL[1]
    figure = Figure(figsize=(wide, high))
    figure.subplots_adjust(
        left=0.5 / wide, right=1 - 0.1 / wide, bottom=0.75 / high, top=1 - (0.5 + more) / high, wspace=0.2, hspace=0.6
    )
    heading(figure, lines)
    grid = figure.subplots(down, across, squeeze=False, sharey=True)
    x = _places(kept)
    handles: dict[str, Artist] = {}
    for axis in grid.flat[len(levels) :]:
        axis.axis("off")
    for axis, removed in zip(grid.flat, levels, strict=False):
        for label, by_level in kept.shares.items():
            if removed in by_level and label in kept.averaged:
                handles["each method"] = _line(axis, kept, heads_kept(by_level[removed]), color=FAINT, linewidth=0.6)
        if removed in kept.shares.get(random, {}):
            handles["random"] = _line(axis, kept, heads_kept(kept.shares[random][removed]), color=MUTED, linestyle=":")
        for own, numbers in kept.by_kind(removed).items():
            marker, colour, _ = ROLES[own]
            look = {"color": colour, "marker": marker, "linestyle": DASHES[own]}
            handles[own] = _line(axis, kept, numbers, markersize=4, linewidth=1.6, **look)
        axis.set_title(f"{kept.units - removed} of {kept.units} kept", fontsize=8.5, loc="left")
        axis.set_ylim(0, (1.2 if any(kept.parts) else 1.05) * max(kept.shape))  # names of parts stand above the lines
        step = 1 + len(x) // 12
        axis.set_xticks(x[::step], [str(number) for _, number in kept.modules[::step]])
        for part, modules in kept.parts.items():
            axis.text(x[modules][0], 1.2 * max(kept.shape), part, color=MUTED, fontsize=7, va="top")
    for axis in grid[:, 0]:
        axis.set_ylabel("heads kept")
    for axis in grid.flat[max(0, len(levels) - across) : len(levels)]:
        axis.set_xlabel("layer")
    figure.legend(list(handles.values()), list(handles), loc="lower left", ncols=5, fontsize=8.5, borderaxespad=0.3)
    return figure


def _places(kept: Kept) -> np.ndarray:
    """Where each module stands along the axis, (modules,): a place is left free between kinds of attention."""
    before = {part: place for place, part in enumerate(kept.parts)}
    return np.array([place + before[part] for place, (part, _) in enumerate(kept.modules)])


def _line(axis: Axes, kept: Kept, numbers: np.ndarray, **look: Any) -> Artist:
    """Draw numbers of each module, (modules,), with a line for each kind of attention; the last of the lines."""
    x = _places(kept)
    return [axis.plot(x[own], numbers[own], **look)[0] for own in kept.parts.values()][-1]
