"""Curves of a paper, and of those measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from bench.report.figures.canvas import canvas, legend, short
from bench.report.figures.picture import SERIES


@dataclass(frozen=True)
class PaperCurve:
    """A method's curve: x is what is removed, group the paper's name for what it does."""

    name: str
    group: str
    published: bool
    x: tuple[float, ...]
    y: tuple[float, ...]


def paper_curves(drawn: Sequence[PaperCurve], title: str, x: str, y: str) -> Figure:
    """Published curves, dashed, and measured ones of the same group, solid in the same colour."""
    figure, axis = canvas(title, x, y)
    groups = list(dict.fromkeys(each.group for each in drawn))
    for each in drawn:
        axis.plot(
            each.x,
            each.y,
            color=SERIES[groups.index(each.group) % len(SERIES)],
            linestyle=(0, (4, 2)) if each.published else "-",
            linewidth=1.2,
            marker="o",
            markersize=3,
            label=short(each.name),
        )
    legend(figure, axis)
    return figure
