"""Pareto fronts: points lost against parameters left or time, with intervals, one front per kind of method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from bench.analysis.points import Mean, Point
from bench.report.figures.canvas import canvas, legend, name_points, short
from bench.report.figures.lines import DASHES
from bench.report.figures.picture import FAINT, MUTED
from bench.report.figures.ranks import ROLES

APART = 2.5  # points of the page between the bars of two kinds at the same place


def fronts(
    title: str,
    x: str,
    of: Mapping[str, Sequence[Point]],
    others: Sequence[Point],
    random: Sequence[Point],
    batch: int | None = None,
) -> Figure:
    """The points that no other method of their kind beats, with 95 % intervals; others are faint, without intervals.

    of: the front of each kind. random: the points of random choice, a dotted line. batch: x is the time of a forward
    pass at this batch size, and parameters without one; per cent of the unpruned model's.
    """

    def place(point: Point) -> Mean:
        return Mean(point.left) if batch is None else point.time(batch)

    figure, axis = canvas(title, x, "points lost", (6.2, 4.6))
    axis.plot(
        *_xy(others, place), "o", color=FAINT, markersize=2.5, markeredgewidth=0, label="others", zorder=1
    )  # fmt: skip
    if random:
        axis.plot(*_xy(random, place), color=MUTED, linewidth=1, linestyle=":", label=short(random[0].label), zorder=2)
    named: list[Point] = []
    for number, (own, points) in enumerate(of.items()):
        marker, colour, _ = ROLES[own]
        moved = axis.transData + ScaledTranslation((number - (len(of) - 1) / 2) * APART / 72, 0, figure.dpi_scale_trans)
        at, lost = _xy(points, place)
        axis.step(at, lost, where="post", color=colour, linewidth=1, linestyle=DASHES[own], zorder=1.5)
        axis.errorbar(
            at, lost, yerr=_reach([point.lost for point in points]),
            xerr=None if batch is None else 100 * _reach([place(point) for point in points]),
            fmt=marker, color=colour, markersize=5, elinewidth=1, capsize=2, label=own, zorder=4, transform=moved,
        )  # fmt: skip
        named += points
    axis.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
    axis.margins(x=0.12)
    axis.autoscale_view()
    legend(figure, axis)
    if named:
        _name(axis, named, *_xy(named, place))
    return figure


def _name(axis: Axes, points: Sequence[Point], x: np.ndarray, y: np.ndarray) -> None:
    """Name the points, each method once: where it loses least."""
    order = np.argsort(y, kind="stable")
    first = {points[place].label: int(place) for place in order[::-1]}
    labels = tuple(point.label for point in points)
    name_points(axis, x, y, labels, sorted(first.values(), key=lambda place: y[place]))


def _xy(points: Sequence[Point], place: Callable[[Point], Mean]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([100 * place(point).value for point in points]), np.array([point.lost.value for point in points])


def _reach(means: Sequence[Mean]) -> np.ndarray:
    """How far the interval of each of ``means`` reaches below and above it, (2, means); 0 without one."""
    ends = [(0.0, 0.0) if m.low is None or m.high is None else (m.value - m.low, m.high - m.value) for m in means]
    return np.maximum(np.array(ends).reshape(-1, 2).T, 0)
