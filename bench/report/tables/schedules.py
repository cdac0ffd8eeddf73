"""Scores under different schedules: how much of a ranking is the score, and how much what each layer has to give."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from typing import NamedTuple

import pandas as pd

from bench.analysis.excluded_tasks import rows_to_average
from bench.analysis.naming import count
from bench.analysis.summary import TASK, over_tasks
from bench.records.errors import InputError
from bench.records.schema import FinishedRecord
from bench.report.board import Board, removes_heads
from bench.report.tables.table import Cell, Heading, Table, name_cell, number_cell

OPTIONS = ("allocation", "inverse", "layer_norm", "recompute")  # of a schedule, whatever the score
EMPTIED = "Share of orders, per cent, that leave some layer without a head when half of the heads are removed"


class Setting(NamedTuple):
    """One score under one schedule."""

    score: str  # with its own options
    recompute: int  # units removed before it scores again; 0 for never
    ranked: str  # global or layer, and whether importances are divided by the norm of their layer


def schedules(board: Board) -> Table:
    """A row for each score that a schedule is applied to, scored once or again, and columns for how units are ranked.

    The area is the mean over tasks and seeds, with the standard deviation over seeds. Inverse schedules, and methods
    that remove neurons, are left out. Raises InputError where nothing is left, or nothing has all tasks.
    """
    settings = {label: found for label in board.labels if (found := _setting(board.any_of(label)))}
    table = rows_to_average(board.table)
    table = table[table["label"].isin(settings)]
    if not len(table):
        raise InputError(f"{board.folder}: no method there has a schedule and removes heads alone")
    tasks = table.groupby(TASK).ngroups
    figures, deviations = over_tasks(table, ["label"], ["area", "emptied50"])
    if not len(figures):
        raise InputError(f"{board.folder}: no method that has a schedule was run on all of its {tasks} tasks")
    means, emptied = (figures[column].to_dict() for column in ("area", "emptied50"))
    spreads = deviations["area"].to_dict()
    labels = _best_known(settings, table, means)
    columns = sorted({setting.ranked for setting in labels})
    rows = []
    for score, recompute in sorted({(setting.score, setting.recompute) for setting in labels}):
        cells = [name_cell(score), Cell(_scored(recompute), _scored(recompute))]
        for column in columns:
            label = labels.get(Setting(score, recompute, column), "")
            cells.append(number_cell(means.get(label, math.nan), 3, sd=float(spreads.get(label, math.nan))))
            cells.append(number_cell(emptied.get(label, math.nan), 0, factor=100))
        rows.append(tuple(cells))
    headings = [Heading("score", "score"), Heading("scored", "scored")]
    for column in columns:
        key = column.replace(", ", "_").replace(" ", "_")
        headings += [
            Heading(f"{column}: area", f"{key}_area"),
            Heading(f"{column}: emptied (%)", f"{key}_emptied", EMPTIED),
        ]
    seeds = sorted(set(table[table["label"].isin(means)].groupby(["label", *TASK]).size()))
    told = count(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    caption = f"Area by score and schedule, mean over {count(tasks, 'task')} and {told}. Emptied: {EMPTIED.lower()}."
    return Table("schedules", caption, tuple(headings), tuple(rows))


def _best_known(
    settings: Mapping[str, Setting], table: pd.DataFrame, means: Collection[Hashable]
) -> dict[Setting, str]:
    """A label of each setting: of several, as ``layer_norm=auto`` and what it stands for, one that has all tasks.

    Of those the one with most cells, and then the shortest.
    """
    cells = table["label"].value_counts().to_dict()
    order = sorted(settings, key=lambda label: (label in means, cells.get(label, 0), -len(label)))
    return {settings[label]: label for label in order}


def _setting(record: FinishedRecord) -> Setting | None:
    """None for a method without a schedule, an inverse one, and a method that removes more than heads."""
    options = record.cell.options
    if "allocation" not in options or options.get("inverse") or not removes_heads(record):
        return None
    method, _, given = record.cell.label.partition(":")
    own = [each for each in given.split(",") if each and each.partition("=")[0] not in OPTIONS]
    recompute, norm = int(options.get("recompute") or 0), options.get("layer_norm", False)
    normed = norm is True or (norm == "auto" and not recompute)
    ranked = "per layer" if options["allocation"] == "layer" else "global"
    return Setting(f"{method}:{','.join(own)}" if own else method, recompute, ranked + ", layer norm" * normed)


def _scored(recompute: int) -> str:
    return {0: "once", 1: "after each removal"}.get(recompute, f"after every {recompute}")
