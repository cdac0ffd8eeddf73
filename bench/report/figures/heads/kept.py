"""Figures of heads: which are kept, how many in each layer, and how many gates a penalty leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from bench.analysis.kept import by_layer, kept_by_layer, kept_shares, mean_heads, modules_of
from bench.analysis.trade_offs.budgets import evenly
from bench.records.protocol import count_at
from bench.records.schema import FinishedRecord
from bench.report.agreement import OrderAgreement
from bench.report.figures.canvas import (
    TITLE_ROW,
    canvas,
    cell_map,
    heading,
    in_two,
    legend,
    name_cells,
    names_of,
    short,
    wrapped,
)
from bench.report.figures.looks import MARKERS
from bench.report.figures.picture import SERIES

CELL = 0.16  # inches
SCALE = 3.4  # inches that the scale of the maps and its text take
BUDGETS = 12  # most columns of the map of layers and budgets
LONGEST = 55  # characters of a name in a legend of one column


def heat_maps(cells: Mapping[str, Sequence[FinishedRecord]], title: str, level: float) -> Figure:
    """Heads kept at ``level`` by method: a row for each attention module; the darker, the more seeds keep the head.

    (Figure 5 of Greedy-Gnorm.)
    """
    maps = {}
    for label, records in cells.items():
        shares = kept_shares(records, count_at(level, records[0].result.units))
        if shares is not None:
            maps[label] = by_layer(shares, records[0].result.shape)
    some, modules = next(iter(maps.values())), modules_of(next(iter(cells.values()))[0])
    tall = len(some)
    room = max(1.4, CELL * max(map(len, some)) + 0.35)  # inches for a map and its name
    across = max(1, min(len(maps), int(7.6 / room)))
    down = -(-len(maps) // across)
    wide = max(across * room, SCALE)
    lines = wrapped(title, wide)
    top = 0.75 + TITLE_ROW * len(lines)  # inches: the title, the scale and the names of the first row
    name = 0.34  # inches of a name
    high = top + down * CELL * tall + (down - 1) * (name + 0.08) + 0.05
    figure = Figure(figsize=(wide, high))
    apart = (name + 0.08) / (CELL * tall)
    margin = 0.24 if isinstance(modules, range) else 0.55  # inches
    figure.subplots_adjust(
        left=margin / wide, right=0.99 * across * room / wide, bottom=0.05 / high, top=1 - top / high, hspace=apart
    )
    heading(figure, lines)
    _scale(figure, 0.05 + TITLE_ROW * len(lines))
    grid = figure.subplots(down, across, squeeze=False)
    names = names_of(maps, partial(in_two, longest=20))
    for axis in grid.flat[len(maps) :]:
        axis.axis("off")
    for place, (axis, (label, layers)) in enumerate(zip(grid.flat, maps.items(), strict=False)):
        cell_map(axis, layers)
        name_cells(axis, [], modules if place % across == 0 else [], size=6)
        axis.set_title(names[label], fontsize=8, loc="left", pad=3)
        axis.set_aspect("equal", anchor="NW")
    return figure


def _scale(figure: Figure, down: float) -> None:
    """What the colours stand for, so many inches below the top."""
    wide, high = figure.get_size_inches()
    shares, side = np.linspace(0, 1, 5), 0.13
    axis = figure.add_axes((0.28 / wide, 1 - (down + side + 0.03) / high, 5 * side / wide, side / high))
    cell_map(axis, [shares])
    name_cells(axis, [], [])
    for x, word, side_of in ((-0.3, "0", "right"), (5.2, "100 % of seeds and draws keep the head", "left")):
        axis.text(x, 0.5, word, ha=side_of, va="center", fontsize=7.5)


def layers_by_budget(records: Sequence[FinishedRecord], title: str) -> Figure:
    """Mean number of heads kept in each layer at each budget (Li et al. 2021, Figure 6), written in its cell.

    Of more than ``BUDGETS`` budgets, so many are shown, evenly spread.
    """
    shape, modules = records[0].result.shape, modules_of(records[0])
    what, levels, numbers = kept_by_layer(records)
    shown = evenly(range(len(levels)), BUDGETS)
    levels, numbers = [levels[place] for place in shown], numbers[:, shown]
    named = not isinstance(modules, range)
    wide = 4.9 if named else 4.4
    figure, axis = canvas(title, what, "attention module" if named else "layer", (wide, 0.85 + 0.24 * len(shape)))
    if named:
        figure.subplots_adjust(left=1.05 / wide)
    filled = list(numbers / np.maximum(shape, 1)[:, None])  # a pruned model may have a layer without heads
    cell_map(axis, filled, lambda row, column: mean_heads(numbers[row, column]), size=8)
    name_cells(axis, levels, modules, 8)
    return figure


def agreements(agreement: OrderAgreement, title: str) -> Figure:
    """Kendall's tau of each two methods above the diagonal; below, per cent of the first heads that both remove.

    The fuller a cell, the farther its value from that of unrelated orders; another colour where it is below that.
    """
    count = len(agreement.labels)
    names = list(names_of(agreement.labels).values())
    side, room = 0.27 * count, 0.2 + 0.065 * max(map(len, names))
    wide = room + side + 0.1
    lines = wrapped(title, wide)
    high = 0.3 + TITLE_ROW * (len(lines) - 1) + side + room
    figure = Figure(figsize=(wide, high))
    axis = figure.add_axes((room / wide, room / high, side / wide, side / high))
    heading(figure, lines)
    beyond = (agreement.shared - agreement.expected) / np.maximum(agreement.expected, 1 - agreement.expected)
    values = np.where(np.triu(np.ones_like(agreement.tau), 1) > 0, agreement.tau, beyond)

    def text(row: int, column: int) -> str:
        if not np.isfinite(values[row, column]):
            return ""
        return _tau(float(agreement.tau[row, column])) if column > row else f"{100 * agreement.shared[row, column]:.0f}"

    above, below = (list(np.nan_to_num(np.maximum(sign * values, 0))) for sign in (1, -1))
    cell_map(axis, above, text, blank=True)
    cell_map(axis, below, colour=SERIES[1], blank=True)
    name_cells(axis, names, names, size=8, rotation=90)
    axis.tick_params(axis="y", labelrotation=0)
    return figure


def _tau(value: float) -> str:
    """With two decimals and without a leading zero."""
    return f"{round(value, 2) + 0:.2f}".replace("1.00", "1").replace("0.", ".").replace("-", "−")


def penalties(records: Mapping[str, Sequence[FinishedRecord]], title: str) -> Figure:
    """Gates left open against the weight of the penalty, points for each task; bars span the seeds.

    There is no line, as most weights are those of the search of one seed.

    (Li et al. 2021, Figure 3.)
    """
    figure, axis = canvas(title, "weight of the penalty λ", "gates left open")
    for place, (name, cells) in enumerate(records.items()):
        colour = SERIES[place % len(SERIES)]
        marker = MARKERS[(place + place // len(SERIES)) % len(MARKERS)]  # another one when a colour comes again
        by_weight = open_gates(cells)
        weights = sorted(by_weight)
        mean = np.array([np.mean(by_weight[weight]) for weight in weights])
        reach = [mean - [min(by_weight[w]) for w in weights], [max(by_weight[w]) for w in weights] - mean]
        axis.errorbar(
            weights, mean, yerr=reach, color=colour, marker=marker, markersize=4.5, linestyle="none", elinewidth=0.8,
            capsize=2, label=short(name, LONGEST),
        )  # fmt: skip
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_ylim(bottom=0)
    legend(figure, axis)
    return figure


def open_gates(records: Sequence[FinishedRecord]) -> dict[float, list[float]]:
    """Gates left open under each weight of the penalty, one value per seed; empty where reports hold none."""
    found: dict[float, list[float]] = {}
    for record in records:
        training = record.result.method_training
        reports = list(training.reports.values()) if training else []
        for key, count in (reports[0] if reports else {}).items():  # the same under every budget
            if key.startswith("open_at_"):
                found.setdefault(float(key.removeprefix("open_at_")), []).append(count)
    return found
