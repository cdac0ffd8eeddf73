"""Figures of heads: which are kept, how many in each layer, and how many gates a penalty leaves open."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.records import Record
from bench.report.curve_figures import canvas, short
from bench.report.lines import MARKERS
from bench.report.picture import INK, MUTED, PAPER, SERIES
from bench.suite import count_at

KEPT = SERIES[0]
CELL = 0.16  # inches


def kept_shares(records: Sequence[Record], removed: int) -> np.ndarray | None:
    """Share of seeds and draws in which each unit is kept when ``removed`` are gone, (units,); None if not measured."""
    masks = []
    for record in records:
        result = record["result"]
        if removed not in result["removed"]:
            continue
        mask = np.zeros(result["units"])
        if result["orders"]:
            for order in result["orders"]:
                mask[order[removed:]] += 1 / len(result["orders"])
        else:
            mask[result["kept"][result["removed"].index(removed)]] = 1
        masks.append(mask)
    return np.mean(masks, axis=0) if masks else None


def by_layer(units: np.ndarray, shape: Sequence[int]) -> list[np.ndarray]:
    """Values of units, (units,), split by layer."""
    return np.split(units, np.cumsum(shape)[:-1])


def heat_maps(cells: dict[str, Sequence[Record]], title: str, level: float) -> Figure:
    """Heads kept at ``level`` by method: a row a layer, the first at the top; the darker, the more seeds keep it.

    (Figure 5 of Greedy-Gnorm.)
    """
    maps = {}
    for label, records in cells.items():
        shares = kept_shares(records, count_at(level, records[0]["result"]["units"]))
        if shares is not None:
            maps[label] = by_layer(shares, records[0]["result"]["shape"])
    some = next(iter(maps.values()))
    wide, tall = max(map(len, some)), len(some)
    across = max(1, min(len(maps), int(6.2 / max(1.25, CELL * wide + 0.35))))
    down = -(-len(maps) // across)
    figure = Figure(
        figsize=(across * max(1.25, CELL * wide + 0.35), 0.35 + down * (CELL * tall + 0.42)), layout="constrained"
    )
    figure.suptitle(title, fontsize=9.5, x=0.01, ha="left", color=INK)
    grid = figure.subplots(down, across, squeeze=False)
    for axis in grid.flat[len(maps) :]:
        axis.axis("off")
    for axis, (label, layers) in zip(grid.flat, maps.items(), strict=False):
        _map(axis, layers)
        axis.set_title(short(label)[:18], fontsize=8, loc="left", pad=3)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_aspect("equal")
    return figure


def layers_by_budget(records: Sequence[Record], title: str) -> Figure:
    """Mean number of heads kept in each layer at each budget (Figure 3 of DSP), written in its cell."""
    result = records[0]["result"]
    shape, removed = result["shape"], result["removed"]
    kept = [kept_shares(records, count) for count in removed]
    numbers = np.array([[layer.sum() for layer in by_layer(one, shape)] for one in kept if one is not None]).T
    figure, axis = canvas(title, "heads kept", "layer", (4.4, 1.15 + 0.22 * len(shape)))
    _map(axis, list(numbers / np.array(shape)[:, None]))
    size = 8 if len(removed) <= 12 else 6
    for (row, column), number in np.ndenumerate(numbers):
        axis.text(
            column + 0.5,
            row + 0.5,
            f"{number:.3g}" if number % 1 == 0 else f"{number:.1f}",
            ha="center",
            va="center",
            fontsize=size,
        )
    axis.set_xticks(np.arange(len(removed)) + 0.5, [str(result["units"] - count) for count in removed], fontsize=size)
    rows = range(0, len(shape), 1 + len(shape) // 16)
    axis.set_yticks([row + 0.5 for row in rows], [str(row) for row in rows])
    return figure


def penalties(records: dict[str, Sequence[Record]], title: str) -> Figure:
    """Gates left open against the weight of the penalty, a line a task (Figure 6 of DSP); bars span the seeds."""
    figure, axis = canvas(title, "weight of the penalty λ", "gates left open")
    for (name, cells), colour, marker in zip(records.items(), SERIES * 9, MARKERS * 9, strict=False):
        by_weight = opened(cells)
        weights = sorted(by_weight)
        mean = np.array([np.mean(by_weight[weight]) for weight in weights])
        reach = [mean - [min(by_weight[w]) for w in weights], [max(by_weight[w]) for w in weights] - mean]
        axis.errorbar(weights, mean, yerr=reach, color=colour, marker=marker, markersize=4.5, linewidth=1.4, elinewidth=0.8, capsize=2, label=short(name))  # fmt: skip
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower left", ncols=2, fontsize=8.5)
    return figure


def opened(records: Sequence[Record]) -> dict[float, list[float]]:
    """Gates left open under each weight of the penalty, one value a seed; empty where reports hold none."""
    found: dict[float, list[float]] = {}
    for record in records:
        training = record["result"]["method_training"]
        reports = list(training["reports"].values()) if training else []
        for key, count in (reports[0] if reports else {}).items():  # the same under every budget
            if key.startswith("open_at_"):
                found.setdefault(float(key.removeprefix("open_at_")), []).append(count)
    return found


def _map(axis: Axes, layers: Sequence[np.ndarray]) -> None:
    """Cells, a row a layer, filled as far as their value, 0 to 1, says."""
    for row, values in enumerate(layers):
        for column, value in enumerate(values):
            axis.fill(
                [column, column + 1, column + 1, column], [row, row, row + 1, row + 1],
                facecolor=KEPT, alpha=None, linewidth=0,
            )[0].set_alpha(0.06 + 0.6 * float(value))  # fmt: skip
    wide, tall = max(map(len, layers)), len(layers)
    for x in range(wide + 1):
        axis.plot([x, x], [0, tall], color=PAPER, linewidth=0.8)
    for y in range(tall + 1):
        axis.plot([0, wide], [y, y], color=PAPER, linewidth=0.8)
    axis.set_xlim(0, wide)
    axis.set_ylim(tall, 0)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0, labelcolor=INK, color=MUTED)
