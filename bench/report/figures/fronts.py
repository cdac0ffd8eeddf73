"""Pareto fronts: points lost against parameters left or time, with intervals, one front per kind of method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from matplotlib.transforms import ScaledTranslation

from bench.analysis.trade_offs.points import Mean, Point
from bench.report.figures.canvas import OTHERS, canvas, legend, short
from bench.report.figures.looks import DASHES
from bench.report.figures.names import NamedPoint, name_points
from bench.report.figures.picture import FAINT, MUTED
from bench.report.figures.ranks import ROLES

APART = 2.5  # points of the page between the bars of two kinds at the same place
LINEAR = 5  # points lost up to which the scale is linear: where people choose
TICKS = (1, 2, 3, 4, 5, 10, 20, 50)


def fronts(
    title: str,
    x: str,
    of: Mapping[str, Sequence[Point]],
    others: Sequence[Point],
    random: Mapping[str, Sequence[Point]],
    batch: int | None = None,
) -> Figure:
    """The points that no other method of their kind beats, with 95 % intervals; others are faint, without intervals.

    of: the front of each kind. random: the points of random choice by kind, dotted lines. batch: x is the time of a
    forward pass at this batch size, and parameters without one; per cent of the unpruned model's.
    """

    def place(point: Point) -> Mean:
        return Mean(point.left) if batch is None else point.time(batch)

    figure, axis = canvas(title, x, "points lost", (6.2, 4.6))
    axis.set_yscale("symlog", linthresh=LINEAR, linscale=2)
    axis.plot(
        *_xy(others, place), "o", color=MUTED, alpha=0.45, markersize=3, markeredgewidth=0, label=OTHERS, zorder=1
    )  # fmt: skip
    named: list[NamedPoint] = []
    for number, (own, points) in enumerate(of.items()):
        marker, colour, _ = ROLES[own]
        shift = (number - (len(of) - 1) / 2) * APART
        moved = axis.transData + ScaledTranslation(shift / 72, 0, figure.dpi_scale_trans)
        at, lost = _xy(points, place)
        reach = _reach([point.lost for point in points])
        across = 100 * _reach([place(point) for point in points])
        axis.step(at, lost, where="post", color=colour, linewidth=1, linestyle=DASHES[own], zorder=1.5)
        axis.errorbar(
            at, lost, yerr=reach,
            xerr=None if batch is None else across,
            fmt=marker, color=colour, markersize=5, elinewidth=1, capsize=2, label=own, zorder=4, transform=moved,
        )  # fmt: skip
        if control := random.get(own):
            name = short(f"random choice, {own}")
            axis.plot(*_xy(control, place), color=colour, linewidth=1, linestyle=":", label=name, zorder=2)
        low, high = lost + [[-1], [1]] * reach
        # The limits have to be told, as what is shifted does not count by itself.
        axis.update_datalim(np.column_stack([(at + [[-1], [1]] * across).ravel(), [*low, *high]]))
        bars = zip(zip(low, high, strict=True), zip(*(at + [[-1], [1]] * across), strict=True), strict=True)
        named += [
            NamedPoint(point.label, *where, colour=colour, shift=shift, bar=bar, across=side)
            for point, where, (bar, side) in zip(points, zip(at, lost, strict=True), bars, strict=True)
        ]
    axis.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
    axis.margins(x=0.12)
    axis.autoscale_view()
    low, high = axis.get_ylim()
    axis.set_yticks([tick for each in (0, *TICKS) for tick in {each, -each} if low <= tick <= high])
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_minor_locator(NullLocator())
    legend(figure, axis)
    name_points(axis, _in_turn(named))
    return figure


def _in_turn(points: Sequence[NamedPoint]) -> list[NamedPoint]:
    """The points in the order in which they are named: of each method first the one where it loses least."""
    ordered = sorted(points, key=lambda point: point.y)
    least = list({point.name: point for point in reversed(ordered)}.values())
    return sorted(least, key=lambda point: point.y) + [point for point in points if point not in least]


def _xy(points: Sequence[Point], place: Callable[[Point], Mean]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([100 * place(point).value for point in points]), np.array([point.lost.value for point in points])


def _reach(means: Sequence[Mean]) -> np.ndarray:
    """How far the interval of each of ``means`` reaches below and above it, (2, means); 0 without one."""
    ends = [(0.0, 0.0) if m.low is None or m.high is None else (m.value - m.low, m.high - m.value) for m in means]
    return np.maximum(np.array(ends).reshape(-1, 2).T, 0)
