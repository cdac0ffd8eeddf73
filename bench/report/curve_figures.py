"""Figures of quality: curves with bands, random draws in boxes, and performance profiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.frame import curve
from bench.records import Record
from bench.report.lines import GREY, Line, Look
from bench.report.picture import FAINT, INK, MUTED, PAPER
from bench.report.standing import Standing
from bench.stats.across import performance_profile

SIZE = (4.4, 3.7)  # inches
LONGEST = 26  # characters of a name in a legend


def curves(
    lines: Sequence[Line],
    looks: dict[str, Look],
    title: str,
    x: str,
    y: str,
    floor: float,
    limits: tuple | None = (0, 1),
) -> Figure:
    """Quality against what is removed; a band is one standard deviation over seeds, ``floor`` is chance."""
    figure, axis = canvas(title, x, y)
    for line in sorted(lines, key=lambda line: line.label in looks):
        draw_line(axis, line, looks.get(line.label, GREY))
    _floor(axis, floor)
    if limits:
        axis.set_xlim(*limits)
    else:
        axis.invert_xaxis()  # the unpruned model stands at the left, as in the others
    legend(figure, axis)
    return figure


def boxes(records: Sequence[Record], line: Line, look: Look, title: str, random: str, floor: float) -> Figure:
    """Random removal at each level, a box over seeds and draws, against one method (Figure 4 of Greedy-Gnorm).

    A box is the middle half, its line the median, whiskers reach to the farthest draw within 1.5 times the box.
    """
    figure, axis = canvas(title, "share of heads removed", "test quality")
    levels, _ = curve(records[0])
    draws = np.concatenate([record["result"]["quality"] for record in records if len(curve(record)[0]) == len(levels)])
    width = 0.6 * min(np.diff(levels), default=1.0)
    drawn = axis.boxplot(draws, positions=levels, widths=width, manage_ticks=False, patch_artist=True, sym=".")
    for part, style in {
        "boxes": {"facecolor": FAINT, "edgecolor": MUTED, "linewidth": 0.7},
        "whiskers": {"color": MUTED, "linewidth": 0.7},
        "caps": {"color": MUTED, "linewidth": 0.7},
        "medians": {"color": INK, "linewidth": 1.2},
        "fliers": {"markeredgecolor": MUTED, "markersize": 3},
    }.items():
        for artist in drawn[part]:
            artist.set(**style)
    drawn["boxes"][0].set_label(f"{short(random)} ({len(draws)} draws)")
    draw_line(axis, line, look)
    _floor(axis, floor)
    axis.set_xlim(-width, 1 + width)
    legend(figure, axis)
    return figure


def profile(found: Standing, looks: dict[str, Look]) -> Figure:
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


def canvas(title: str, x: str, y: str, size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    """A figure with one axis."""
    figure = Figure(figsize=size, layout="constrained")
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
    figure.legend(
        [entries[name] for name in named], named, loc="outside lower left", ncols=2, fontsize=8.5, handlelength=2.6
    )


def short(label: str) -> str:
    """A name that fits; the whole is in the table."""
    line = " ".join(label.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _floor(axis: Axes, floor: float) -> None:
    axis.axhline(floor, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
    axis.annotate(
        "chance", (0.995, floor), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
        color=MUTED, fontsize=8, ha="right",
    )  # fmt: skip
    axis.set_ylim(min(0, floor) - 0.02, 1.02)
