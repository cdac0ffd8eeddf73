"""Curves of a paper, and of those measured here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from bench.report.figures.canvas import canvas, legend, short
from bench.report.figures.curves import MARKED
from bench.report.figures.looks import MARKERS
from bench.report.figures.picture import PAPER, SERIES


@dataclass(frozen=True)
class PaperCurve:
    """A method's curve: x is what is removed, group the paper's name for what it does."""

    name: str
    group: str
    published: bool
    x: tuple[float, ...]
    y: tuple[float, ...]


def paper_curves(drawn: Sequence[PaperCurve], title: str, x: str, y: str) -> Figure:
    """Published curves, dashed, and measured ones of the same group, solid in the same colour with the same marker.

    Of several measured ones of a group all but the first have hollow markers.
    """
    figure, axis = canvas(title, x, y)
    groups = list(dict.fromkeys(each.group for each in drawn))
    measured: Counter[str] = Counter()
    for each in drawn:
        group = groups.index(each.group)
        colour = SERIES[group % len(SERIES)]
        axis.plot(
            each.x,
            each.y,
            color=colour,
            linestyle=(0, (4, 2)) if each.published else "-",
            linewidth=1.2,
            marker=MARKERS[group % len(MARKERS)],
            markersize=3.5,
            markevery=max(1, len(each.x) // MARKED),
            markerfacecolor=PAPER if measured[each.group] and not each.published else colour,
            label=short(each.name),
        )
        measured[each.group] += not each.published
    legend(figure, axis)
    return figure
