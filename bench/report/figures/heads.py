"""Figures of heads: which are kept, how many in each layer, and how many gates a penalty leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from bench.records.protocol import count_at
from bench.records.schema import FinishedRecord
from bench.report.agreement import Agreement
from bench.report.figures.curves import canvas, legend, short, together
from bench.report.figures.lines import MARKERS
from bench.report.figures.picture import INK, SERIES

KEPT = SERIES[0]
CELL = 0.16  # inches
GAP = 0.93  # of a cell is filled


def kept_shares(records: Sequence[FinishedRecord], removed: int) -> np.ndarray | None:
    """Share of seeds and draws in which each unit is kept when ``removed`` are gone, (units,); None if not measured."""
    masks = []
    for record in records:
        result = record.result
        if removed not in result.removed:
            continue
        mask = np.zeros(result.units)
        if result.orders:
            for order in result.orders:
                mask[order[removed:]] += 1 / len(result.orders)
        elif result.kept:
            mask[result.kept[result.removed.index(removed)]] = 1
        masks.append(mask)
    return np.mean(masks, axis=0) if masks else None


def by_layer(units: np.ndarray, shape: Sequence[int]) -> list[np.ndarray]:
    """Values of units, (units,), split by layer."""
    return np.split(units, np.cumsum(shape)[:-1])


def heat_maps(cells: Mapping[str, Sequence[FinishedRecord]], title: str, level: float) -> Figure:
    """Heads kept at ``level`` by method: a row a layer, the first at the top; the darker, the more seeds keep it.

    (Figure 5 of Greedy-Gnorm.)
    """
    maps = {}
    for label, records in cells.items():
        shares = kept_shares(records, count_at(level, records[0].result.units))
        if shares is not None:
            maps[label] = by_layer(shares, records[0].result.shape)
    some = next(iter(maps.values()))
    wide, tall = max(map(len, some)), len(some)
    room = max(1.25, CELL * wide + 0.35)  # inches for a map, and for its name
    across = max(1, min(len(maps), int(7.6 / room)))
    down = -(-len(maps) // across)
    high = 0.35 + down * (CELL * tall + 0.42)
    figure = Figure(figsize=(across * room, high))
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.05 / high, top=1 - 0.5 / high, hspace=0.3 / (CELL * tall))
    figure.text(0.01, 1 - 0.05 / high, title, va="top", fontsize=9.5)
    grid = figure.subplots(down, across, squeeze=False)
    for axis in grid.flat[len(maps) :]:
        axis.axis("off")
    for axis, (label, layers) in zip(grid.flat, maps.items(), strict=False):
        cells_of_layers(axis, layers)
        axis.set_title(short(label)[:18], fontsize=8, loc="left", pad=3)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_aspect("equal", anchor="NW")
    return figure


def kept_by_layer(records: Sequence[FinishedRecord]) -> tuple[list[int], np.ndarray]:
    """Budgets, in heads, and the mean number of heads kept in each layer at each: (layers, budgets).

    Of records that were measured at other levels than the first, the levels that it has.
    """
    result = records[0].result
    kept = [kept_shares(records, count) for count in result.removed]
    numbers = [[layer.sum() for layer in by_layer(units, result.shape)] for units in kept if units is not None]
    return [result.units - count for count in result.removed], np.array(numbers).T


def layers_by_budget(records: Sequence[FinishedRecord], title: str) -> Figure:
    """Mean number of heads kept in each layer at each budget (Figure 3 of DSP), written in its cell."""
    shape = records[0].result.shape
    budgets, numbers = kept_by_layer(records)
    figure, axis = canvas(title, "heads kept in all", "layer", (4.4, 0.85 + 0.24 * len(shape)))
    cells_of_layers(axis, list(numbers / np.array(shape)[:, None]))
    size = 8 if len(budgets) <= 12 else 6
    for (row, column), number in np.ndenumerate(numbers):
        axis.text(column + GAP / 2, row + GAP / 2, figure_of(number), ha="center", va="center", fontsize=size)
    axis.set_xticks(np.arange(len(budgets)) + 0.5, [str(budget) for budget in budgets], fontsize=size)
    rows = range(0, len(shape), 1 + len(shape) // 16)
    axis.set_yticks([row + 0.5 for row in rows], [str(row) for row in rows])
    return figure


def agreements(found: Agreement, title: str) -> Figure:
    """Kendall's tau of each two methods above the diagonal, and below it the heads that both remove first, per cent.

    Each is written in its cell; the fuller the cell, the farther from what unrelated orders give, in another colour
    where it is below that.
    """
    count = len(found.labels)
    names = [short(label) for label in found.labels]
    side, room, top = 0.27 * count, 0.2 + 0.065 * max(map(len, names)), 0.3
    wide, high = room + side + 0.1, top + side + room
    figure = Figure(figsize=(wide, high))
    axis = figure.add_axes((room / wide, room / high, side / wide, side / high))
    figure.text(0.05 / wide, 1 - 0.05 / high, title, va="top", fontsize=9.5)
    beyond = (found.shared - found.chance) / np.maximum(found.chance, 1 - found.chance)
    upper = np.triu(np.ones_like(found.tau), 1) > 0
    values = np.where(upper, found.tau, beyond)
    for colour, sign in ((KEPT, 1), (SERIES[1], -1)):
        cells_of_layers(axis, list(np.where(sign * values > 0, sign * values, 0)), colour, bare=True)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            told = (
                _tau(float(found.tau[row, column])) if upper[row, column] else f"{100 * found.shared[row, column]:.0f}"
            )
            axis.text(column + GAP / 2, row + GAP / 2, told, ha="center", va="center", fontsize=7)
    axis.set_xticks(np.arange(count) + 0.5, names, rotation=90, fontsize=8)
    axis.set_yticks(np.arange(count) + 0.5, names, fontsize=8)
    return figure


def _tau(value: float) -> str:
    """In two digits after the point, without the nought before it."""
    return f"{round(value, 2) + 0:.2f}".replace("1.00", "1").replace("0.", ".").replace("-", "−")


def figure_of(number: float) -> str:
    """A mean number of heads, with a digit after the point where it is not whole."""
    return f"{number:.0f}" if abs(number - round(number)) < 0.05 else f"{number:.1f}"


def penalties(records: Mapping[str, Sequence[FinishedRecord]], title: str) -> Figure:
    """Gates left open against the weight of the penalty, a line a task (Figure 6 of DSP); bars span the seeds."""
    figure, axis = canvas(title, "weight of the penalty λ", "gates left open")
    for (name, cells), colour, marker in zip(records.items(), SERIES * 9, MARKERS * 9, strict=False):
        by_weight = opened(cells)
        weights = sorted(by_weight)
        mean = np.array([np.mean(by_weight[weight]) for weight in weights])
        reach = [mean - [min(by_weight[w]) for w in weights], [max(by_weight[w]) for w in weights] - mean]
        axis.errorbar(
            weights, mean, yerr=reach, color=colour, marker=marker, markersize=4.5, linewidth=1.4, elinewidth=0.8,
            capsize=2, label=short(name),
        )  # fmt: skip
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_ylim(bottom=0)
    legend(figure, axis)
    return figure


def opened(records: Sequence[FinishedRecord]) -> dict[float, list[float]]:
    """Gates left open under each weight of the penalty, one value a seed; empty where reports hold none."""
    found: dict[float, list[float]] = {}
    for record in records:
        training = record.result.method_training
        reports = list(training.reports.values()) if training else []
        for key, count in (reports[0] if reports else {}).items():  # the same under every budget
            if key.startswith("open_at_"):
                found.setdefault(float(key.removeprefix("open_at_")), []).append(count)
    return found


def cells_of_layers(axis: Axes, layers: Sequence[np.ndarray], colour: str = KEPT, bare: bool = False) -> None:
    """Cells, a row a layer, filled as far as their value, 0 to 1, says; all cells of a value are one path.

    bare: leave cells of 0 empty.
    """
    squares: dict[float, list[list[tuple[float, float]]]] = {}
    for y, values in enumerate(layers):
        for x, value in enumerate(values):
            corners = [(x, y), (x + GAP, y), (x + GAP, y + GAP), (x, y + GAP)]
            if value or not bare:
                squares.setdefault(round(float(value), 2), []).append(corners)
    for value, shapes in sorted(squares.items()):
        together(axis, shapes, facecolor=colour, linewidth=0, alpha=0.06 + 0.6 * value)
    axis.set_xlim(0, max(map(len, layers)))
    axis.set_ylim(len(layers), 0)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0, labelcolor=INK)
