"""Figures of quality: curves with bands, random draws in boxes, and performance profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cbook import boxplot_stats
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from bench.analysis.curves import curve
from bench.analysis.stats.across import performance_profile
from bench.records.schema import FinishedRecord
from bench.report.figures.lines import GREY, Line, Look
from bench.report.figures.picture import FAINT, INK, MUTED, PAPER
from bench.report.figures.quality_axis import QualityAxis
from bench.report.standing import Standing

SIZE = (4.4, 3.7)  # inches
ROW = 0.175  # inches of a line of a legend
LONGEST = 26  # characters of a name in a legend


def curves(
    lines: Sequence[Line],
    looks: Mapping[str, Look],
    title: str,
    x: str,
    scale: QualityAxis,
    limits: tuple[float | None, float | None] | None,
) -> Figure:
    """Quality against what is removed; a band is one standard deviation over seeds.

    limits: of the x axis; None for one on which the unpruned model, 1, stands at the left as in the others.
    """
    figure, axis = canvas(title, x, scale.name)
    for line in sorted(lines, key=lambda line: line.label in looks):
        draw_line(axis, line, looks.get(line.label, GREY))
    _fit(axis, scale)
    if limits:
        axis.set_xlim(*limits)
    else:
        axis.invert_xaxis()
    legend(figure, axis)
    return figure


def boxes(
    records: Sequence[FinishedRecord], line: Line, look: Look, title: str, random: str, scale: QualityAxis
) -> Figure:
    """Random removal at each level, a box over seeds and draws, against one method (Figure 4 of Greedy-Gnorm).

    A box is the middle half, its line the median, whiskers reach to the farthest draw within 1.5 times the box, and
    draws beyond are short strokes.
    """
    figure, axis = canvas(title, "share of heads removed", scale.name)
    levels, _ = curve(records[0])
    draws = np.concatenate([record.result.quality for record in records if len(curve(record)[0]) == len(levels)])
    width = 0.6 * min(np.diff(levels), default=1.0)
    _draw_boxes(axis, levels, draws, width, f"{short(random)} ({len(draws)} draws)")
    draw_line(axis, line, look)
    _fit(axis, scale)
    axis.set_xlim(-width, 1 + width)
    legend(figure, axis)
    return figure


def profile(found: Standing, looks: Mapping[str, Look]) -> Figure:
    """Share of runs, averaged over tasks, whose area is above each threshold (Agarwal et al. 2021, Sec. 4.2)."""
    figure, axis = canvas("Performance profile", "area τ", "share of runs with area above τ")
    thresholds = np.linspace(0, 1, 201)
    shares = performance_profile(found.scores, thresholds)
    for place in sorted(range(len(found.labels)), key=lambda place: found.labels[place] in looks):
        label = found.labels[place]
        look = looks.get(label, GREY)
        axis.step(
            thresholds,
            shares[place],
            where="post",
            color=look.colour,
            linestyle=look.dashes,
            linewidth=look.width,
            marker=look.marker,
            markevery=(5 * place % 20, 20),
            markersize=4,
            markerfacecolor=PAPER if look.hollow else look.colour,
            label=short(label) if label in looks else "others",
        )
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1.02)
    legend(figure, axis)
    return figure


def _draw_boxes(axis: Axes, levels: np.ndarray, draws: np.ndarray, width: float, label: str) -> None:
    """A box for each column of ``draws``, (draws, levels); all boxes are one path, as are all other parts of a kind."""
    boxes, whiskers, medians = [], [], []
    for x, stats in zip(levels, boxplot_stats(draws), strict=True):
        left, right = x - width / 2, x + width / 2
        boxes.append([(left, stats["q1"]), (right, stats["q1"]), (right, stats["q3"]), (left, stats["q3"])])
        whiskers += [[(x, stats["whislo"]), (x, stats["q1"])], [(x, stats["q3"]), (x, stats["whishi"])]]
        whiskers += [[(x - width / 4, end), (x + width / 4, end)] for end in (stats["whislo"], stats["whishi"])]
        medians.append([(left, stats["med"]), (right, stats["med"])])
        whiskers += [[(x - width / 12, value), (x + width / 12, value)] for value in stats["fliers"]]
    together(axis, boxes, facecolor=FAINT, edgecolor=MUTED, linewidth=0.7, label=label)
    together(axis, whiskers, facecolor="none", edgecolor=MUTED, linewidth=0.7)
    together(axis, medians, facecolor="none", edgecolor=INK, linewidth=1.2)


def together(axis: Axes, shapes: Sequence[Sequence[tuple[float, float]]], **style: Any) -> None:
    """Lines, or polygons of more than two corners, as one path: a tenth of the bytes of as many paths."""
    paths = [Path(shape if len(shape) == 2 else [*shape, shape[0]], closed=len(shape) > 2) for shape in shapes]
    axis.add_patch(PathPatch(Path.make_compound_path(*paths), **style))


def canvas(title: str, x: str, y: str, size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    """A figure with one axis, and room for what is around it: a fixed layout is found at once."""
    wide, high = size
    figure = Figure(figsize=size)
    figure.subplots_adjust(left=0.55 / wide, right=1 - 0.12 / wide, bottom=0.5 / high, top=1 - 0.25 / high)
    axis = figure.subplots()
    axis.set_title(title, loc="left", color=INK)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    return figure, axis


def draw_line(axis: Axes, line: Line, look: Look) -> None:
    """A curve with its band; the others share one entry of the legend."""
    named = look is not GREY
    axis.plot(
        line.x,
        line.y,
        color=look.colour,
        linestyle=look.dashes,
        linewidth=look.width,
        marker=look.marker,
        markersize=4.5,
        markerfacecolor=PAPER if look.hollow else look.colour,
        label=short(line.label) if named else "others",
        zorder=3 if named else 1,
    )
    if named and np.isfinite(line.spread).all():
        axis.fill_between(
            line.x, line.y - line.spread, line.y + line.spread, color=look.colour, alpha=0.14, linewidth=0, zorder=2
        )


def legend(figure: Figure, axis: Axes) -> None:
    """Below, in two columns, what stands out first."""
    handles, names = axis.get_legend_handles_labels()
    entries = dict(zip(names, handles, strict=True))
    named = [name for name in entries if name != "others"] + (["others"] if "others" in entries else [])
    rows = -(-len(named) // 2)
    figure.subplots_adjust(bottom=(0.55 + ROW * rows) / figure.get_figheight())
    figure.legend(
        [entries[name] for name in named],
        named,
        loc="lower left",
        bbox_to_anchor=(0.02, 0),
        ncols=2,
        fontsize=8.5,
        handlelength=2.6,
        borderaxespad=0,
        labelspacing=0.3,
    )


def short(label: str) -> str:
    """A name that fits; the whole is in the table."""
    line = " ".join(label.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _fit(axis: Axes, scale: QualityAxis) -> None:
    axis.axhline(scale.chance, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
    axis.annotate(
        "chance", (0.005, scale.chance), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
        color=MUTED, fontsize=8, ha="left",
    )  # fmt: skip
    scale.fit(axis)
