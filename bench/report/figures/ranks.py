"""Figures of ranks: areas with intervals and tiers, critical differences, quality against cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.analysis.comparing.controls import chooses_at_random
from bench.analysis.costs import cost_in_passes
from bench.analysis.kinds import KINDS, RECOVERED, TRAINED
from bench.analysis.naming import count
from bench.analysis.trade_offs.fronts import front
from bench.report.board import Board, role
from bench.report.figures.canvas import canvas, names_of, short
from bench.report.figures.looks import FIRST, MARKERS
from bench.report.figures.names import NamedPoint, name_points
from bench.report.figures.picture import FAINT, INK, MUTED, PAPER, SERIES
from bench.report.standing import Standing

ROLES = {  # marker, colour, filled: shape and filling tell the roles apart as colours do
    **{own: (MARKERS[number], SERIES[number], True) for own, number in FIRST.items()},
    "control": ("o", MUTED, False),
    f"{RECOVERED} control": ("^", MUTED, False),
    f"{TRAINED} control": ("s", MUTED, False),
}
LINE = 0.19  # inches of a row
LEGEND = 4  # entries that fit above a figure
LONGEST = 40  # characters of a name in the figure of areas


def areas(board: Board, standing: Standing) -> Figure:
    """Area of each method with its interval (or its spread over seeds), each kind apart.

    In the order of the standing; bands part the tiers, and a dotted line goes through the random controls.
    """
    rows = len(standing.labels) + 1.6 * len(standing.kinds)
    names = names_of(standing.labels, partial(short, longest=LONGEST))
    left, bottom = 0.25 + 0.075 * max(map(len, names.values())), 0.62
    caption = _caption(standing)
    wide, tall = max(3.6 + left, 0.2 + 0.062 * len(caption)), 1.0 + LINE * rows
    figure, axis = canvas("", "area: mean normalised quality over all shares removed", "", (wide, tall))
    figure.subplots_adjust(left=left / wide, right=1 - 0.5 / wide, bottom=bottom / tall, top=1 - 0.35 / tall)
    y = 0.0
    ticks: dict[str, float] = {}
    for own, members in standing.kinds.items():
        axis.annotate(
            KINDS[own], (0, y + 0.55), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8.5, fontweight="bold",
        )  # fmt: skip
        y += 1.6
        _areas(axis, board, standing, members, y)
        ticks |= {label: y + place for place, label in enumerate(members)}
        y += len(members)
    axis.set_yticks(list(ticks.values()), [names[label] for label in ticks])
    for label, text in zip(ticks, axis.get_yticklabels(), strict=True):
        text.set_color(MUTED if board.any_of(label).cell.control else INK)
    axis.set_ylim(y - 0.4, 0)
    axis.grid(axis="x", color=FAINT, linewidth=0.5)
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0)
    axis.annotate(
        caption, (0.5, 0), xycoords="figure fraction", xytext=(0, 4), textcoords="offset points", ha="center",
        color=MUTED, fontsize=8,
    )  # fmt: skip
    _kinds(figure, axis)
    return figure


def _caption(standing: Standing) -> str:
    seeds = sorted({standing.fewest_seeds, max(map(len, standing.seeds.values()))})
    tasks = f"mean over {len(standing.seeds)} tasks" if len(standing.seeds) > 1 else next(iter(standing.seeds)).data
    over = f"{'–'.join(map(str, seeds))} seed{'s' * (seeds != [1])}"
    if seeds[0] > 1:
        over = f"bars: {'standard deviation' if standing.area.low is None else '95 % intervals'} over {over}"
    return f"0 chance, 1 unpruned; {tasks}; {over}"


def _areas(axis: Axes, board: Board, standing: Standing, members: Sequence[str], top: float) -> None:
    """The rows of ``members``, the first at ``top``."""
    value = standing.area.value
    spread = np.nan_to_num(standing.spread)
    low = value - spread if standing.area.low is None else standing.area.low
    high = value + spread if standing.area.high is None else standing.area.high
    before = None
    for row, label in enumerate(members):
        place, own, tier = standing.labels.index(label), role(board.any_of(label)), standing.tier(label)
        marker, colour, filled = ROLES[own]
        at = top + row
        if tier and tier % 2 == 0:
            axis.axhspan(at - 0.5, at + 0.5, color=FAINT, alpha=0.3, linewidth=0, zorder=0)
        axis.plot([low[place], high[place]], [at, at], color=colour, linewidth=1.8, zorder=2)
        axis.plot(
            value[place], at, marker, color=colour, markerfacecolor=colour if filled else PAPER, markersize=5.5,
            label=own, zorder=3,
        )  # fmt: skip
        if tier and tier != before:
            axis.annotate(
                f"tier {tier}", (1.01, at), xycoords=("axes fraction", "data"), va="center", color=MUTED, fontsize=8
            )
        before = tier
        if chooses_at_random(board.any_of(label).cell):
            ends = [top - 0.5, top + len(members) - 0.5]
            axis.plot([value[place]] * 2, ends, color=MUTED, linewidth=1, linestyle=(0, (1, 2)), zorder=1)


def critical_differences(standing: Standing, blocks: str) -> Figure:
    """Mean ranks on a line, best at the left; a bar joins methods not shown to differ (Demšar 2006, Figure 1).

    blocks: what methods are ranked on, a task or a seed.
    """
    ranks = standing.ranking
    assert ranks is not None
    order = np.argsort(ranks.ranks, kind="stable")
    number, bars = len(order), len(ranks.cliques)
    half = (number + 1) // 2
    top = 0.35 + 0.12 * bars
    height = top + LINE * half + 0.75
    names = list(names_of(standing.labels).values())
    room = 0.45 + 0.075 * max(map(len, names))  # inches for a name and its rank
    wide = 2 * room + 2.9
    figure = Figure(figsize=(wide, height))
    axis = figure.add_axes((room / wide, 0, 2.9 / wide, 1))
    axis.set_ylim(-(height - 0.75), 0.75)  # inches, the line of ranks at 0
    axis.set_xlim(1, number)
    axis.axis("off")
    axis.plot([1, number], [0, 0], color=MUTED, linewidth=0.9, clip_on=False)
    for tick in sorted({1, number, *range(5, number - 1, 5)}):
        axis.plot([tick, tick], [0, 0.06], color=MUTED, linewidth=0.9)
        axis.text(tick, 0.09, str(tick), ha="center", va="bottom", fontsize=8)
    axis.text(
        (1 + number) / 2, 0.42, f"mean rank over {count(ranks.blocks, blocks)} (1 is best)", ha="center", fontsize=8.5
    )
    for row, place in enumerate(order):
        left = row < half
        y = -(top + LINE * (row if left else number - 1 - row))
        edge, side = (1, "right") if left else (number, "left")
        rank = ranks.ranks[place]
        axis.plot([rank, rank, edge], [0, y, y], color=MUTED, linewidth=0.6, clip_on=False)
        name = names[place]
        pad = -4 if left else 4
        shown = f"{name}  {rank:.1f}" if left else f"{rank:.1f}  {name}"
        axis.annotate(
            shown, (edge, y), xytext=(pad, 0), textcoords="offset points", ha=side, va="center", fontsize=8.5,
            annotation_clip=False,
        )  # fmt: skip
    for line, clique in enumerate(ranks.cliques):
        ends = [ranks.ranks[place] for place in clique]
        y = -(0.14 + 0.12 * line)
        axis.plot([min(ends), max(ends)], [y, y], color=INK, linewidth=3, solid_capstyle="butt")
    return figure


def _passes(board: Board, standing: Standing, label: str) -> float:
    """Mean over tasks, equally weighted, of the mean over those seeds that the area of the method is of."""
    return fmean(
        fmean(cost_in_passes(record) for record in board.of(task, label) if record.cell.seed in seeds)
        for task, seeds in standing.seeds.items()
    )


def pareto(board: Board, standing: Standing) -> Figure:
    """Area against the examples that a method sends through the model, forward and backward, to score or to train.

    A line joins the methods that no cheaper one beats; those that send no examples stand at the left edge.
    """
    figure, axis = canvas("", "examples through forward and backward, to score or train", "area", (6.2, 4.4))
    figure.subplots_adjust(top=1 - 0.35 / 4.4)
    cost = np.array([_passes(board, standing, label) for label in standing.labels])
    least = min(cost[cost > 0], default=1.0)
    edge, free = least / 1.8, least / 3  # where the scale begins, and where methods without cost stand
    shown = np.where(cost > 0, cost, free)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    best = front(cost, -standing.area.value)
    axis.step(shown[best], standing.area.value[best], where="post", color=FAINT, linewidth=1.2, zorder=1)
    for place, label in enumerate(standing.labels):
        own = role(board.any_of(label))
        marker, colour, filled = ROLES[own]
        axis.plot(
            shown[place], standing.area.value[place], marker, color=colour,
            markerfacecolor=colour if filled else PAPER, markersize=6, label=own, zorder=3,
        )  # fmt: skip
    axis.margins(x=0.16, y=0.08)
    _kinds(figure, axis)
    axis.autoscale_view()  # names are placed on the final scale
    if (cost == 0).any():
        axis.axvline(edge, color=FAINT, linewidth=0.8)
        axis.annotate(
            "0", (free, 0), xycoords=("data", "axes fraction"), xytext=(0, -4), textcoords="offset points",
            ha="center", va="top", color=MUTED,
        )  # fmt: skip
        for minor in (False, True):
            axis.set_xticks([tick for tick in axis.get_xticks(minor=minor) if tick > edge], minor=minor)
    order = [*best, *(place for place in range(len(standing.labels)) if place not in best)]
    name_points(
        axis,
        [
            NamedPoint(
                standing.labels[place], shown[place], standing.area.value[place], INK if place in best else MUTED
            )
            for place in order
        ],
    )
    return figure


def _kinds(figure: Figure, axis: Axes) -> None:
    """A legend of the roles of methods, above."""
    handles = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    names = [name for name in ROLES if name in handles]
    if len(names) > LEGEND:  # the hollow mark of one kind of control stands for all
        names = [name for name in names if name in KINDS or name == "control"]
    figure.legend(
        [handles[name] for name in names], names, loc="upper left", ncols=LEGEND, fontsize=8.5, borderaxespad=0.1,
        bbox_to_anchor=(0.01, 1 - 0.05 / figure.get_figheight()), handletextpad=0.2, columnspacing=1.2,
    )  # fmt: skip
