"""The main tables of a report: who stands where, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

from bench.analysis.curves import removes
from bench.records.schema import TaskKey
from bench.report.board import Board, keeps_all, kind
from bench.report.leaderboard import COLUMNS
from bench.report.pages.links import method_of, records_of, task_of
from bench.report.standing import Standing
from bench.report.tables.details import estimated
from bench.report.tables.table import Cell, Heading, Table, name, number

TIMED = ("speedup1", "speedup32")  # of one machine; the others can be averaged over machines or are exact
SHORT = {
    "at50": "at 50 %",
    "at75": "at 75 %",
    "within1": "off, −1 pt",
    "within5": "off, −5 pt",
    "parameters50": "params off",
    "mb": "MB",
    "speedup1": "speed-up, b1",
    "speedup32": "speed-up, b32",
    "scoring_seconds": "scoring s",
    "forward": "forward",
    "backward": "backward",
    "training_seconds": "training s",
}
HELP = {
    "at50": "Quality with half of the heads removed, per cent",
    "at75": "Quality with three quarters of the heads removed, per cent",
    "within1": "Largest share removed, per cent, before quality has fallen by more than 1 point",
    "within5": "Largest share removed, per cent, before quality has fallen by more than 5 points",
    "parameters50": "Share of all parameters gone at 50 %, per cent",
    "mb": "Size at 50 %, MB of 2^20 bytes",
    "speedup1": "At 50 %, batch 1, against the unpruned model in the same interleaved repeats",
    "speedup32": "At 50 %, batch 32, against the unpruned model in the same interleaved repeats",
    "scoring_seconds": "Wall seconds of scoring",
    "forward": "Calibration examples sent forward through the model to score",
    "backward": "Calibration examples sent backward through the model to score",
    "training_seconds": "Wall seconds of training gates, or gates and weights, at all levels together",
}


def standings(
    board: Board, tasks: Sequence[TaskKey], found: Standing | None, file: str, caption: str, root: str = ""
) -> Table:
    """A row for each method that has all ``tasks``, by tier and area; what removes neurons or nothing comes last.

    Values are means over seeds of the mean over tasks within a seed, as on the leaderboard, but the area of what is
    ranked is that of the standing, over all seeds of each task. Its spread is its 95 % interval or, with too few seeds
    for any, like the others' the standard deviation over seeds.
    """
    columns = _columns(board)
    table = board.table.set_index(["task", "data", "model"]).sort_index()
    part = pd.concat([table.loc[[task]] for task in tasks])
    per_seed = part.groupby(["label", "seed"])[list(COLUMNS)].mean(skipna=False)
    per_seed = per_seed[part.groupby(["label", "seed"]).size() == len(tasks)]
    means, spreads = per_seed.groupby("label").mean(skipna=False), per_seed.groupby("label").std()
    rest = [label for label in means.index if not found or label not in found.labels]
    rest.sort(key=lambda label: (removes(board.any_of(label)) != "heads", -np.nan_to_num(means["area"].loc[label])))
    rows, marks = [], []
    for label in [*(found.labels if found else ()), *rest]:
        if label not in means.index:  # ranked by the seeds of each task, but no seed is that of all tasks
            continue
        record, sources = board.any_of(label), records_of(label, tasks[0] if len(tasks) == 1 else None, root)
        tier = found.tier(label) if found else None
        rows.append(
            (
                name(label, method_of(label, root)),
                _area(label, means, spreads, found, sources),
                Cell(str(tier) if tier else "–", tier or math.nan),
                Cell(kind(record) + _parts(board, label), kind(record)),
                *_cells(means, spreads, label, columns, sources),
            )
        )
        marks.append(" ".join([*kind(record).split(), *(["neurons"] if removes(record) != "heads" else [])]))
    headings = (
        Heading("method", "method"),
        Heading("area", "area", "Mean quality over all shares removed; 0 is chance, 1 the unpruned model"),
        Heading("tier", "tier", "Methods of a tier are practically equal, or the seeds cannot tell them from its head"),
        Heading("kind", "kind", "Scores leave the weights alone; trained ones had gates or weights trained"),
        *(Heading(SHORT[column], column, HELP[column]) for column in columns),
    )
    return Table(file, caption, headings, tuple(rows), tuple(marks))


def by_task(board: Board, label: str, file: str) -> Table:
    """A row for each task that a method has: means over its seeds, with their standard deviation."""
    columns = ["area", *_columns(board)]
    own = board.table[board.table["label"] == label].groupby(["task", "data", "model"])[list(COLUMNS)]
    means, spreads = own.mean(skipna=False), own.std()  # a mean over some seeds only would mislead
    rows = []
    for task in board.tasks:
        if records := board.of(task, label):
            sources = records_of(label, task, "../")
            rows.append(
                (
                    name(board.name(task), task_of(task, "../")),
                    number(len(records), 0, href=sources),
                    *_cells(means, spreads, task, columns, sources),
                )
            )
    headings = (
        Heading("task", "task"),
        Heading("seeds", "seeds"),
        *(Heading(SHORT.get(c, c), c, HELP.get(c, "")) for c in columns),
    )
    return Table(file, f"{label}, by task", headings, tuple(rows))


def speeds(board: Board) -> list[Table]:
    """Speed-up at half of the heads by method, a table for each machine: times of two are never averaged.

    Empty with a single machine: then the other tables have it.
    """
    if len(board.machines) == 1:
        return []
    found = []
    for count, which in enumerate(board.machines, 1):
        groups = board.on(which).table.groupby("label")[list(TIMED)]
        means, spreads = groups.mean(), groups.std()
        rows = tuple(
            (name(label, method_of(label)), *_cells(means, spreads, label, TIMED, records_of(label)))
            for label in board.on(which).labels
        )
        headings = (Heading("method", "method"), *(Heading(SHORT[c], c, HELP[c]) for c in TIMED))
        found.append(Table(f"speed-{count}", f"Speed-up with half of the heads, on {which}", headings, rows))
    return found


def _columns(board: Board) -> list[str]:
    """Those that some method has; times are shown beside the rest where they are of one machine."""
    some = board.table.notna().any()
    return [column for column in SHORT if some[column] and (column not in TIMED or len(board.machines) == 1)]


def _parts(board: Board, label: str) -> str:
    record = board.any_of(label)
    if keeps_all(record):
        return ", removes nothing"
    return "" if removes(record) == "heads" else f", {removes(record)}"


def _area(label: str, means: pd.DataFrame, spreads: pd.DataFrame, found: Standing | None, href: str) -> Cell:
    """That of the standing, where the method has one, with its interval over seeds if there is any."""
    (cell,) = _cells(means, spreads, label, ["area"], href)
    if not found or label not in found.labels:
        return cell
    place = found.labels.index(label)
    if found.area.low is not None:
        return estimated(found.area, place, 3, href)
    return number(float(found.area.value[place]), 3, cell.spread, href=href)


def _cells(means: pd.DataFrame, spreads: pd.DataFrame, row: Hashable, columns: Sequence[str], href: str) -> list[Cell]:
    """Means of a row, with their standard deviations where there are several seeds."""
    cells = []
    for column in columns:
        _, factor, digits = COLUMNS[column]
        mean, spread = (float(each[column].to_dict()[row]) for each in (means, spreads))
        told = "" if math.isnan(spread) else f" ±{spread * factor:.{digits}f}"
        cells.append(number(mean, digits, told, factor, href))
    return cells
