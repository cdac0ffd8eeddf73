"""The figure of a leaderboard, ``curves.svg``: quality against what is removed, one column of panels per task."""

from __future__ import annotations

from functools import partial
from typing import Any

from matplotlib.figure import Figure

from bench.report.board import Board
from bench.report.figures import lines
from bench.report.figures.canvas import LEGEND_LETTER, LEGEND_LINE, OTHERS, names_of, wrapped
from bench.report.figures.curves import draw_lines
from bench.report.figures.looks import highlighted, looks
from bench.report.figures.picture import MUTED, picture
from bench.report.figures.quality_axis import QualityAxis
from bench.report.leaderboard_files import ABOUT

PANEL = 4.2  # inches of a task


def overview(board: Board) -> bytes:
    """SVG with a column for each task, by heads removed above and by parameters removed below.

    A band is one standard deviation over seeds. Methods that remove neurons are drawn by parameters alone.
    """
    return picture("curves", ABOUT, "", partial(_draw, board), ("svg",)).files["svg"]


def _draw(board: Board) -> Figure:
    own = highlighted(board, looks(board))
    figure = Figure(figsize=(PANEL * len(board.tasks), 7.2), layout="constrained")
    axes = figure.subplots(2, len(board.tasks), squeeze=False)
    entries: dict[str, Any] = {}
    left = ""
    for column, task in zip(axes.T, board.tasks, strict=True):
        scale = QualityAxis.of(board.of_task(task)[0])
        for axis, what, points in zip(
            column, ("heads", "parameters"), (lines.by_heads, lines.by_parameters), strict=True
        ):
            drawn = lines.of_task(board, task, points)
            draw_lines(axis, drawn, own, scale)
            if not drawn:
                axis.text(0.5, 0.5, "no method removes heads alone", transform=axis.transAxes, ha="center", color=MUTED)
            axis.set_xlabel(f"share of {what} removed")
            axis.set_ylabel(scale.name if scale.name != left else "")
            axis.set_xlim(0, 1 if what == "heads" else None)
            entries |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        left = scale.name
        title = [line for part in (task.data, f"{task.task}, {task.model}") for line in wrapped(part, PANEL - 0.6)]
        column[0].set_title("\n".join(title))
    named = [name for name in (*names_of(own).values(), OTHERS) if name in entries]
    fit = int(PANEL * len(board.tasks) / (LEGEND_LINE + LEGEND_LETTER * max(map(len, named), default=0)))
    columns = max(1, min(fit, 2 * len(board.tasks), len(named)))
    figure.legend([entries[name] for name in named], named, loc="outside lower center", ncols=columns)
    return figure
