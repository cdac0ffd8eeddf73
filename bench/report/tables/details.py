"""Tables beside the main ones: across tasks, orders, layers, and the metrics of sub-tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.analysis.stats.across import Estimate, improvement, seed_bootstrap
from bench.analysis.stats.orders import stability
from bench.records.schema import FinishedRecord, TaskKey
from bench.report.board import Board
from bench.report.figures.heads import figure_of, kept_by_layer
from bench.report.pages.links import method_of, place, records_of, task_of
from bench.report.standing import Standing
from bench.report.tables.metrics import metric_tables
from bench.report.tables.published import HEADINGS, PARTS, SOURCE, side_by_side
from bench.report.tables.table import Cell, Heading, Table, name, number


def improvements(found: Standing, against: str, file: str) -> Table:
    """Interquartile mean, and the probability that a run is above one of ``against``, for each ranked method."""
    other = found.labels.index(against)
    better = seed_bootstrap(lambda drawn: improvement(drawn)[..., :, other], found.scores)
    rows = tuple(
        (
            name(label, method_of(label)),
            estimated(found.iqm, index, 3, records_of(label)),
            estimated(better, index, 2, records_of(label)),
        )
        for index, label in enumerate(found.labels)
    )
    headings = (
        Heading("method", "method"),
        Heading("IQM of area", "iqm", "Mean over the middle half of the tasks, seeds averaged first"),
        Heading(f"P(above {against})", "above", f"Probability that a run is above one of {against}, ties half"),
    )
    return Table(file, "Across tasks, with 95 % intervals from a bootstrap stratified by task", headings, rows)


def stabilities(board: Board, label: str, root: str) -> Table | None:
    """Agreement of a method's removal orders over seeds, by task; None for a method without such."""
    rows = []
    for task in board.tasks:
        orders = [record.result.orders for record in board.of(task, label) if record.result.orders]
        if len({np.shape(order) for order in orders}) == 1:
            tau = stability(np.array(orders))
            rows.append(
                (
                    name(board.name(task), task_of(task, root)),
                    number(len(orders), 0),
                    number(tau, 2, missing="one seed", href=records_of(label, task, root)),
                )
            )
    headings = (Heading("task", "task"), Heading("seeds", "seeds"), Heading("Kendall's tau", "tau"))
    caption = "Agreement of its removal orders over seeds: 1 is the same order, 0 what unrelated orders give"
    return Table("stability", caption, headings, tuple(rows)) if rows else None


def by_layer(board: Board, task: TaskKey, records: Sequence[FinishedRecord]) -> Table:
    """Mean number of heads kept in each layer at each budget (Figure 3 of DSP)."""
    shape = records[0].result.shape
    budgets, numbers = kept_by_layer(records)
    rows = tuple(
        (name(f"layer {row}"), *(Cell(figure_of(n), float(n), heat=float(n) / size) for n in numbers[row]))
        for row, size in enumerate(shape)
    )
    headings = (Heading("heads kept in all", "layer"), *(Heading(str(budget), str(budget)) for budget in budgets))
    return Table(f"layers-{place(task)}", board.name(task), headings, rows)


def sub_tasks(board: Board, task: TaskKey) -> list[Table]:
    """The sub-tasks' own metrics of one task, at some levels: ``bench.report.tables.metrics`` with links."""
    records = [record for label in board.labels for record in board.of(task, label)]
    tables = []
    for heading, (head, *rows) in metric_tables(records):
        cells = tuple(
            (
                name(label, method_of(label, "../") if label in board.labels else ""),
                *(Cell(figure, float(figure)) for figure in figures),
            )
            for label, *figures in rows
        )
        file = f"{place(task)}-metrics-{heading.partition(' ')[0]}"
        tables.append(Table(file, heading, tuple(Heading(shown, shown) for shown in head), cells))
    return tables


def published(board: Board, task: TaskKey) -> Table | None:
    """Figures of a paper, marked as such, each followed by those measured here; None where no paper has this task."""
    shown = side_by_side([record for label in board.labels for record in board.of(task, label)])
    rows = tuple(
        (
            Cell(f"{row.name} (published)", f"{row.name} (published)")
            if row.published
            else name(row.name, method_of(row.name, "../") if row.name in board.labels else ""),
            Cell("published" if row.published else "measured", "published" if row.published else "measured"),
            Cell(f"{row.removed} of {PARTS}", float(row.removed)),
            *(number(value, 2) for value in (*row.accuracies, row.speedup)),
        )
        for row in shown
    )
    headings = (
        Heading("method", "method"),
        Heading("origin", "origin", "Published: a paper gives it, and it was not measured here"),
        Heading("removed", "removed", "Of the 32 parts of each layer's heads, neurons or both"),
        *(Heading(heading, heading) for heading in HEADINGS),
    )
    caption = f"{board.name(task)}, beside figures published by {SOURCE}"
    marks = tuple("published" if row.published else "measured" for row in shown)
    return Table(f"{place(task)}-published", caption, headings, rows, marks) if rows else None


def estimated(estimate: Estimate, index: int, digits: int, href: str) -> Cell:
    """The cell of an estimate with its interval, if it has one."""
    spread = ""
    if estimate.low is not None and estimate.high is not None:
        spread = f" [{estimate.low[index]:.{digits}f}, {estimate.high[index]:.{digits}f}]"
    return number(float(estimate.value[index]), digits, spread, href=href)
