"""The main tables of a report: methods by rank, with what they cost."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from bench.analysis.curves import removes
from bench.analysis.kinds import KINDS, kind, titled
from bench.analysis.summary import TASK, over_seeds, over_tasks
from bench.records.schema import TaskKey
from bench.report.board import Board, keeps_all, role
from bench.report.left_out import by_seeds
from bench.report.links import method_link, records_link, task_link
from bench.report.standing import Standing
from bench.report.tables.columns import COLUMNS, TIMED, column, columns_of
from bench.report.tables.details import estimate_cell
from bench.report.tables.over import OVER, heading, over_cell
from bench.report.tables.table import Cell, Heading, Table, name_cell, number_cell

SHOWN = [name for name in TIMED if COLUMNS[name].short]  # times that pages show


def standings(
    board: Board, tasks: Sequence[TaskKey], standing: Standing | None, file: str, caption: str, root: str = ""
) -> Table:
    """A row for each method that has all ``tasks``, by kind, tier and area; those not ranked come last in their kind.

    Values are means over tasks and seeds, as on the leaderboard, with their standard deviation over seeds; but of
    ranked methods over the seeds of the standing alone, and the caption names what this leaves out. The area of a
    ranked method has its 95 % interval where there are seeds enough for one. Each method is compared with its controls.
    """
    table = board.table.set_index(TASK).sort_index()
    part = pd.concat([table.loc[[task]] for task in tasks]).reset_index()
    if standing and (spare := _spare(standing, part)).any():
        cells = zip(part["label"][spare], part["seed"][spare], strict=True)
        caption += f"; without seeds that most methods lack: {by_seeds(cells)}"
        part = part[~spare]
    means, spreads = over_tasks(part, ["label"], columns_of(board))
    every = _columns(board)
    columns = [name for name in every if means.empty or means[name].notna().any()]
    if len(tasks) > 1 and any(name in TIMED and name not in columns for name in every):
        caption += "; speed was not measured on all tasks, and is on the pages of some"
    rest = [label for label in means.index if not standing or label not in standing.labels]
    rest.sort(key=lambda label: (removes(board.any_of(label)) != "heads", -np.nan_to_num(means["area"].loc[label])))
    shown = [label for label in [*(standing.labels if standing else ()), *rest] if label in means.index]
    shown.sort(key=lambda label: list(KINDS).index(kind(board.any_of(label).cell)))
    over = board.over_controls(tasks, standing.seeds if standing else None)
    compared = [which for which in OVER if any(which in over.get(label, {}) for label in shown)]
    rows, marks = [], []
    for label in shown:
        record, sources = board.any_of(label), records_link(label, tasks[0] if len(tasks) == 1 else None, root)
        tier = standing.tier(label) if standing else None
        rows.append(
            (
                name_cell(label, method_link(label, root)),
                _area(label, means, spreads, standing, sources),
                Cell(str(tier) if tier else "–", tier or math.nan),
                *(over_cell(over.get(label, {}).get(which), sources) for which in compared),
                Cell(text := role(record) + _parts(board, label), text),
                *_cells(means, spreads, label, columns, sources),
            )
        )
        marks.append(" ".join([*role(record).split(), *(["neurons"] if removes(record) != "heads" else [])]))
    headings = (
        Heading("method", "method"),
        *_headings(["area"]),
        Heading("tier", "tier", "Methods of a tier were not shown to keep less than its best by more than the margin"),
        *map(heading, compared),
        Heading("kind", "kind", "What becomes of the weights that are left, and whether it is a control"),
        *_headings(columns),
    )
    groups = tuple(_group(board, label) for label in shown)
    return Table(file, caption, headings, tuple(rows), tuple(marks), groups)


def sorted_by(table: Table, key: str) -> Table:
    """The rows of ``standings`` by a column of numbers, largest first within each kind.

    Those of neurons, and those without a number, stay last there.
    """
    keys = [heading.key for heading in table.headings]
    if key not in keys:  # no method has a number there
        return table
    place, groups = keys.index(key), [group for group, _ in table.parts]

    def rank(row: int) -> tuple[int, bool, float]:
        group, value = groups.index(table.groups[row]), float(table.rows[row][place].value)
        return group, "neurons" in table.marks[row].split(), -np.nan_to_num(value, nan=-np.inf)

    order = sorted(range(len(table.rows)), key=rank)
    return replace(
        table,
        rows=tuple(table.rows[row] for row in order),
        marks=tuple(table.marks[row] for row in order),
        groups=tuple(table.groups[row] for row in order),
    )


def by_task(board: Board, label: str, file: str) -> Table:
    """A row for each task that a method has: means over its seeds, with their standard deviation."""
    columns = ["area", *_columns(board)]
    own = board.table[board.table["label"] == label].set_index(TASK)[columns_of(board)]
    means, spreads = over_seeds(own, TASK)
    rows = []
    for task in board.tasks:
        if records := board.of(task, label):
            sources = records_link(label, task, "../")
            rows.append(
                (
                    name_cell(board.name(task), task_link(task, "../")),
                    number_cell(len(records), 0, href=sources),
                    *_cells(means, spreads, task, columns, sources),
                )
            )
    headings = (Heading("task", "task"), Heading("seeds", "seeds"), *_headings(columns))
    return Table(file, f"{label}, by task", headings, tuple(rows))


def speeds(board: Board) -> list[Table]:
    """Speed-up with half of the heads by method, one table per machine: times from two are never averaged.

    Means over the seeds of each task, of the methods that have all tasks of the machine. Empty for a single machine,
    whose speed-ups the other tables show, and where nothing was timed.
    """
    if len(board.machines) <= 1:
        return []
    found = []
    for count, which in enumerate(board.machines, 1):
        part = board.on(which)
        timed = [name for name in SHOWN if part.table[name].notna().any()]
        means, spreads = over_tasks(part.table, ["label"], timed)
        if means.isna().all(axis=None):  # at no level near a half, or no method on all tasks
            continue
        rows = tuple(
            (name_cell(label, method_link(label)), *_cells(means, spreads, label, timed, records_link(label)))
            for label in means.index
        )
        headings = (Heading("method", "method"), *_headings(timed))
        found.append(Table(f"speed-{count}", f"Speed-up with half of the heads, on {which}", headings, rows))
    return found


def _spare(standing: Standing, part: pd.DataFrame) -> pd.Series:
    """Whether each row of ``part`` is of a ranked method, but of another seed than the standing has of the task."""
    tasks = map(TaskKey._make, part[TASK].itertuples(index=False, name=None))
    here = zip(tasks, part["seed"], strict=True)
    other = pd.Series([task in standing.seeds and seed not in standing.seeds[task] for task, seed in here], part.index)
    return other & part["label"].isin(standing.labels)


def _columns(board: Board) -> list[str]:
    """Columns of pages that some method has."""
    some = board.table.notna().any()
    return [name for name in columns_of(board) if column(name).short and name != "area" and some[name]]


def _headings(columns: Sequence[str]) -> list[Heading]:
    return [Heading(column(name).short, name, column(name).help) for name in columns]


def _group(board: Board, label: str) -> str:
    return titled(kind(board.any_of(label).cell))


def _parts(board: Board, label: str) -> str:
    record = board.any_of(label)
    if keeps_all(record):
        return ", removes nothing"
    return "" if removes(record) == "heads" else f", {removes(record)}"


def _area(label: str, means: pd.DataFrame, spreads: pd.DataFrame, standing: Standing | None, href: str) -> Cell:
    """The area of a ranked method in the standing, with its interval or its spread; else the mean over seeds."""
    if not standing or label not in standing.labels:
        (cell,) = _cells(means, spreads, label, ["area"], href)
        return cell
    place = standing.labels.index(label)
    if standing.area.low is not None:
        return estimate_cell(standing.area, place, 3, href)
    return number_cell(float(standing.area.value[place]), 3, sd=float(standing.spread[place]), href=href)


def _cells(means: pd.DataFrame, spreads: pd.DataFrame, row: Hashable, columns: Sequence[str], href: str) -> list[Cell]:
    """Means of a row, with their standard deviations where there are several seeds."""
    cells = []
    for name in columns:
        shown = column(name)
        mean, spread = (float(each[name].to_dict()[row]) for each in (means, spreads))
        cells.append(number_cell(mean, shown.digits, sd=spread, factor=shown.factor, href=href))
    return cells
