"""Figures of quality: curves with bands, random draws in boxes, and performance profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.analysis.curves import curve, removes
from bench.analysis.stats.across import performance_profile
from bench.analysis.trade_offs.budgets import evenly
from bench.records.schema import FinishedRecord
from bench.report.figures.canvas import OTHERS, canvas, legend, names_of, short
from bench.report.figures.lines import Line
from bench.report.figures.looks import GREY, Look
from bench.report.figures.picture import FAINT, INK, MUTED, PAPER
from bench.report.figures.quality_axis import QualityAxis
from bench.report.standing import Standing

MARKED = 12  # about so many points of a line have a marker
BOXES, NARROWEST = 24, 0.012  # most levels that have a box, and the share of the axis that it takes at least


def curves(
    lines: Sequence[Line],
    looks: Mapping[str, Look],
    title: str,
    x: str,
    scale: QualityAxis,
    limits: tuple[float | None, float | None] | None,
) -> Figure:
    """Quality against what is removed, with bands of one standard deviation over seeds.

    limits: of the x axis; None for an axis that ends with the unpruned model, which is then drawn at the left.
    """
    figure, axis = canvas(title, x, scale.name)
    draw_lines(axis, lines, looks, scale)
    if limits:
        axis.set_xlim(*limits)
    else:
        axis.invert_xaxis()
    legend(figure, axis)
    return figure


def boxes(
    records: Sequence[FinishedRecord], line: Line, look: Look, title: str, random: str, scale: QualityAxis
) -> Figure:
    """Random removal at each level, one box over seeds and draws, against one method (Figure 4 of Greedy-Gnorm).

    A box is the middle half, its line the median; whiskers reach to the farthest draw within 1.5 times the box. Of more
    than ``BOXES`` levels, so many have one.
    """
    figure, axis = canvas(title, f"share of {removes(records[0])} removed", scale.name)
    levels, _ = curve(records[0])
    removed = records[0].result.removed
    draws = np.concatenate([record.result.quality for record in records if record.result.removed == removed])
    shown = evenly(range(len(levels)), BOXES)
    levels, draws = levels[shown], draws[:, shown]
    width = max(0.6 * min(np.diff(levels), default=1.0), NARROWEST)
    thin = {"color": MUTED, "linewidth": 0.7}
    axis.boxplot(
        draws, positions=levels, widths=width, manage_ticks=False, patch_artist=True,
        label=f"{short(random)} ({len(draws)} {'draw' if len(draws) == 1 else 'draws'})",
        boxprops={"facecolor": FAINT, "edgecolor": MUTED, "linewidth": 0.7},
        medianprops={"color": INK, "linewidth": 1.2}, whiskerprops=thin, capprops=thin,
        flierprops={"marker": "_", "markersize": 3, "markeredgecolor": MUTED, "markeredgewidth": 0.7},
    )  # fmt: skip
    draw_lines(axis, [line], {line.label: look}, scale)
    axis.set_xlim(-width, 1 + width)
    legend(figure, axis)
    return figure


def profile(standing: Standing, looks: Mapping[str, Look]) -> Figure:
    """Share of runs, averaged over tasks, whose area is above each threshold (Agarwal et al. 2021, Sec. 4.2)."""
    figure, axis = canvas("Performance profile", "area τ", "share of runs with area above τ")
    thresholds = np.linspace(0, 1, 201)
    shares, names = performance_profile(standing.scores, thresholds), names_of(looks)
    for place in sorted(range(len(standing.labels)), key=lambda place: standing.labels[place] in looks):
        label = standing.labels[place]
        style = {"drawstyle": "steps-post", "markevery": (5 * place % 20, 20)}
        _plot(axis, thresholds, shares[place], names.get(label), looks.get(label, GREY), **style)
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1.02)
    legend(figure, axis)
    return figure


def draw_lines(axis: Axes, lines: Sequence[Line], looks: Mapping[str, Look], scale: QualityAxis) -> None:
    """Curves, those in ``looks`` with bands and above the others, on an axis of quality with a line at chance."""
    names = names_of(looks)
    for line in sorted(lines, key=lambda line: line.label in looks):
        _plot(axis, line.x, line.y, names.get(line.label), looks.get(line.label, GREY))
        if line.label in looks and np.isfinite(line.spread).all():
            low, high, colour = line.y - line.spread, line.y + line.spread, looks[line.label].colour
            axis.fill_between(line.x, low, high, color=colour, alpha=0.14, linewidth=0, zorder=2)
    axis.axhline(scale.chance, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
    axis.annotate(
        "chance", (0.005, scale.chance), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
        color=MUTED, fontsize=8, ha="left",
    )  # fmt: skip
    scale.fit(axis)


def _plot(axis: Axes, x: np.ndarray, y: np.ndarray, name: str | None, look: Look, **style: Any) -> None:
    """One line; all without a name share an entry of the legend."""
    axis.plot(
        x,
        y,
        color=look.colour,
        linestyle=look.dashes,
        linewidth=look.width,
        marker=look.marker,
        markersize=4.5,
        markerfacecolor=PAPER if look.hollow else look.colour,
        label=name or OTHERS,
        zorder=3 if name else 1,
        **{"markevery": max(1, len(x) // MARKED), **style},
    )
