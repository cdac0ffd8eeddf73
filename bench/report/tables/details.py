"""Tables beside the main ones: across tasks, removal orders, layers, metrics of sub-tasks, and papers' figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.analysis.kept import kept_by_layer, mean_heads, modules_of
from bench.analysis.stats.across import Estimate, improvement_over, seed_bootstrap
from bench.analysis.stats.orders import stability
from bench.records.schema import FinishedRecord, TaskKey
from bench.report.board import Board
from bench.report.links import method_link, records_link, slug, task_link, task_slug
from bench.report.standing import Standing
from bench.report.tables.metrics import metric_tables
from bench.report.tables.published import PaperComparison
from bench.report.tables.table import Cell, Heading, Table, name_cell, number_cell


def improvements(standing: Standing, against: str, file: str) -> Table:
    """Interquartile mean of each ranked method, and the probability that a run of it is above one of ``against``."""
    other = standing.labels.index(against)
    better = seed_bootstrap(lambda scores, counts: improvement_over(scores, counts, other), standing.scores)
    rows = tuple(
        (
            name_cell(label, method_link(label)),
            estimate_cell(standing.iqm, index, 3, records_link(label)),
            estimate_cell(better, index, 2, records_link(label)),
        )
        for index, label in enumerate(standing.labels)
    )
    headings = (
        Heading("method", "method"),
        Heading("IQM of area", "iqm", "Mean over the middle half of the tasks, seeds averaged first"),
        Heading(
            f"P(above {against})",
            "above",
            f"Probability that a run is above one of {against} (mean of its draws), ties half",
        ),
    )
    intervals = "" if standing.iqm.low is None else ", with 95 % intervals from a bootstrap stratified by task"
    return Table(file, f"Interquartile mean of areas, and runs above those of {against}{intervals}", headings, rows)


def stabilities(board: Board, label: str, root: str) -> Table | None:
    """Agreement of a method's removal orders over seeds, by task; None for a method without removal orders."""
    rows = []
    for task in board.tasks:
        orders = [record.result.orders for record in board.of(task, label) if record.result.orders]
        if len({np.shape(order) for order in orders}) == 1:
            tau = stability(np.array(orders))
            rows.append(
                (
                    name_cell(board.name(task), task_link(task, root)),
                    number_cell(len(orders), 0),
                    number_cell(tau, 2, missing="one seed", href=records_link(label, task, root)),
                )
            )
    headings = (Heading("task", "task"), Heading("seeds", "seeds"), Heading("Kendall's tau", "tau"))
    caption = "Agreement of its removal orders over seeds: 1 is the same order, 0 what unrelated orders give"
    return Table("stability", caption, headings, tuple(rows)) if rows else None


def by_layer(board: Board, task: TaskKey, records: Sequence[FinishedRecord]) -> Table:
    """Mean number of heads kept in each layer at each budget (Li et al. 2021, Figure 6)."""
    shape = records[0].result.shape
    what, levels, numbers = kept_by_layer(records)
    rows = tuple(
        (
            name_cell(f"layer {module}" if isinstance(module, int) else module),
            *(Cell(mean_heads(n), float(n), heat=float(n) / max(size, 1)) for n in numbers[row]),
        )
        for row, (module, size) in enumerate(zip(modules_of(records[0]), shape, strict=True))
    )
    headings = (Heading(what, "layer"), *(Heading(level, level) for level in levels))
    return Table(f"layers-{task_slug(task)}", board.name(task), headings, rows)


def sub_tasks(board: Board, task: TaskKey) -> list[Table]:
    """The metrics of a task's sub-tasks at some levels, as in ``bench.report.tables.metrics``, with links."""
    records = board.of_task(task)
    tables = []
    for heading, (head, *rows) in metric_tables(records):
        cells = tuple(
            (
                name_cell(name.shown, method_link(name.shown, "../") if name.shown in board.labels else ""),
                *figures,
            )
            for name, *figures in rows
        )
        file = f"{task_slug(task)}-metrics-{heading.partition(' ')[0]}"
        tables.append(Table(file, heading, tuple(Heading(cell.shown, cell.shown) for cell in head), cells))
    return tables


def published(board: Board, each: PaperComparison) -> Table:
    """Figures of a paper, marked as such, each row followed by those measured here."""
    table, cells = each.table, []
    for row in each.rows:
        origin = "published" if row.published else "measured"
        link = method_link(row.name) if not row.published and row.name in board.labels else ""
        removed = Cell(table.amount(row.removed), float(row.removed))
        figures = (Cell(column.shown(value), value) for column, value in zip(table.figures, row.figures, strict=True))
        cells.append((name_cell(row.shown_name, link), Cell(origin, origin), removed, *figures))
    headings = (
        Heading("method", "method"),
        Heading("origin", "origin", "Published: a paper gives it, and it was not measured here"),
        Heading("removed", "removed", table.unit.capitalize()),
        *(Heading(column.heading, column.heading) for column in table.figures),
    )
    caption = f"{table.name}, published by {each.paper.source}, and measured on {each.measured_on}"
    marks = tuple(str(row[1].value) for row in cells)
    return Table(published_name(each), caption, headings, tuple(cells), marks)


def published_name(each: PaperComparison) -> str:
    """Name of the files of a paper's table beside what was measured on one task, or on several of one model."""
    where = slug(each.tasks[0].model) if each.table.over_tasks else task_slug(each.tasks[0])
    return f"published-{each.paper.suite}-{each.paper.tables.index(each.table) + 1}-{where}"


def estimate_cell(estimate: Estimate, index: int, digits: int, href: str) -> Cell:
    """The cell of an estimate with its interval, if it has one."""
    ends = None
    if estimate.low is not None and estimate.high is not None:
        ends = (float(estimate.low[index]), float(estimate.high[index]))
    return number_cell(float(estimate.value[index]), digits, ends=ends, href=href)
