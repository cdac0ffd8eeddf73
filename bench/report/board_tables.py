"""The tables of a report, and where each of their numbers comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from bench.frame import removes
from bench.leaderboard import COLUMNS
from bench.metric_tables import metric_tables
from bench.records import Record
from bench.report.board import Board, keeps_all, kind, machine
from bench.report.head_figures import figure_of, kept_by_layer
from bench.report.markup import slug
from bench.report.standing import Standing
from bench.report.tables import Cell, Heading, Table, name, number
from bench.stats.across import Estimate, improvement, seed_bootstrap
from bench.stats.orders import stability
from bench.stats.samples import TaskKey

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


def place(task: TaskKey) -> str:
    """File name of a task, without an ending."""
    return slug(".".join(task))


def records_of(label: str, task: TaskKey | None = None, root: str = "") -> str:
    """Link to the records of a method, on a task or on all: ``root`` leads from the page to the report's folder."""
    return f"{root}records.html#{slug(label)}" + (f"--{place(task)}" if task else "")


def standings(
    board: Board, tasks: Sequence[TaskKey], found: Standing | None, file: str, caption: str, root: str = ""
) -> Table:
    """A row for each method that has all ``tasks``, by tier and area; what removes neurons or nothing comes last.

    Values are means over seeds of the mean over tasks within a seed, as on the leaderboard; the spread of the area is
    its 95 % interval or, with too few seeds for any, like the others' the standard deviation over seeds.
    """
    machines = {machine(record) for record in board.records.values()}
    columns = [column for column in SHORT if column not in TIMED or len(machines) == 1]
    table = board.table.set_index(["task", "data", "model"]).sort_index()
    part = pd.concat([table.loc[[task]] for task in tasks])
    per_seed = part.groupby(["label", "seed"])[list(COLUMNS)].mean(skipna=False)
    per_seed = per_seed[part.groupby(["label", "seed"]).size() == len(tasks)]
    means, spreads = per_seed.groupby("label").mean(skipna=False), per_seed.groupby("label").std()
    rest = [label for label in means.index if not found or label not in found.labels]
    rest.sort(key=lambda label: (removes(board.any_of(label)) != "heads", -np.nan_to_num(means.loc[label, "area"])))
    rows, marks = [], []
    for label in [*(found.labels if found else ()), *rest]:
        if label not in means.index:  # ranked by the seeds of each task, but no seed is that of all tasks
            continue
        record, sources = board.any_of(label), records_of(label, tasks[0] if len(tasks) == 1 else None, root)
        tier = found.tier(label) if found else None
        rows.append(
            (
                name(label, f"{root}methods/{slug(label)}.html"),
                _area(label, means, spreads, found, sources),
                Cell(str(tier) if tier else "–", tier or math.nan),
                Cell(kind(record) + _parts(board, label), kind(record)),
                *(_mean(means.loc[label, c], spreads.loc[label, c], c, sources) for c in columns),
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
    columns = ["area", *(column for column in SHORT)]
    own = board.table[board.table["label"] == label].groupby(["task", "data", "model"])[list(COLUMNS)]
    means, spreads = own.mean(), own.std()
    rows = []
    for task in board.tasks:
        if records := board.of(task, label):
            sources = records_of(label, task, "../")
            rows.append(
                (
                    name(board.name(task), f"../tasks/{place(task)}.html"),
                    number(len(records), 0, href=sources),
                    *(_mean(means.loc[task, c], spreads.loc[task, c], c, sources) for c in columns),
                )
            )
    headings = (
        Heading("task", "task"),
        Heading("seeds", "seeds"),
        *(Heading(SHORT.get(c, c), c, HELP.get(c, "")) for c in columns),
    )
    return Table(file, f"{label}, by task", headings, tuple(rows))


def speeds(board: Board) -> list[Table]:
    """Speed-up at half of the heads by method, a table for each machine: times of two are never averaged."""
    machines = sorted({machine(record) for record in board.records.values()})
    tables = []
    for number_, which in enumerate(machines, 1):
        own = [machine(record) == which for record in board.records.values()]
        part = board.table[own].groupby("label")[list(TIMED)]
        rows = [
            (
                name(str(label), f"methods/{slug(str(label))}.html"),
                *(
                    _mean(part.mean().loc[label, column], part.std().loc[label, column], column, records_of(str(label)))
                    for column in TIMED
                ),
            )
            for label in part.groups
        ]
        tables.append(
            Table(
                "speed" if len(machines) == 1 else f"speed-{number_}",
                f"Speed-up with half of the heads, on {which}",
                (Heading("method", "method"), *(Heading(SHORT[c], c, HELP[c]) for c in TIMED)),
                tuple(rows),
            )
        )
    return tables


def improvements(found: Standing, against: str, file: str) -> Table:
    """Interquartile mean, and the probability that a run is above one of ``against``, for each ranked method."""
    other = found.labels.index(against)
    better = seed_bootstrap(lambda drawn: improvement(drawn)[..., :, other], found.scores)
    rows = tuple(
        (
            name(label, f"methods/{slug(label)}.html"),
            _estimated(found.iqm, index, 3, records_of(label)),
            _estimated(better, index, 2, records_of(label)),
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
        orders = [record["result"]["orders"] for record in board.of(task, label) if record["result"]["orders"]]
        if len({np.shape(order) for order in orders}) == 1:
            tau = stability(np.array(orders))
            rows.append(
                (
                    name(board.name(task), f"{root}tasks/{place(task)}.html"),
                    number(len(orders), 0),
                    number(tau, 2, missing="one seed", href=records_of(label, task, root)),
                )
            )
    headings = (Heading("task", "task"), Heading("seeds", "seeds"), Heading("Kendall's tau", "tau"))
    return (
        Table("stability", "Agreement of its removal orders over seeds: 1 is the same order", headings, tuple(rows))
        if rows
        else None
    )


def by_layer(board: Board, task: TaskKey, records: Sequence[Record]) -> Table:
    """Mean number of heads kept in each layer at each budget (Figure 3 of DSP)."""
    shape = records[0]["result"]["shape"]
    budgets, numbers = kept_by_layer(records)
    rows = tuple(
        (name(f"layer {row}"), *(Cell(figure_of(n), float(n), heat=float(n) / size) for n in numbers[row]))
        for row, size in enumerate(shape)
    )
    headings = (Heading("heads kept in all", "layer"), *(Heading(str(budget), str(budget)) for budget in budgets))
    return Table(f"layers-{place(task)}", board.name(task), headings, rows)


def sub_tasks(board: Board, task: TaskKey) -> list[Table]:
    """The sub-tasks' own metrics of one task, at some levels: ``bench.metric_tables`` with links."""
    records = [record for label in board.labels for record in board.of(task, label)]
    tables = []
    for heading, (head, *rows) in metric_tables(records):
        cells = tuple(
            (
                name(label, f"../methods/{slug(label)}.html" if label in board.labels else ""),
                *(Cell(figure, float(figure)) for figure in figures),
            )
            for label, *figures in rows
        )
        file = f"{place(task)}-metrics-{heading.partition(' ')[0]}"
        tables.append(Table(file, heading, tuple(Heading(shown, shown) for shown in head), cells))
    return tables


def _parts(board: Board, label: str) -> str:
    record = board.any_of(label)
    if keeps_all(record):
        return ", removes nothing"
    return "" if removes(record) == "heads" else f", {removes(record)}"


def _area(label: str, means: pd.DataFrame, spreads: pd.DataFrame, found: Standing | None, href: str) -> Cell:
    """With the interval over seeds where there is one."""
    if found and label in found.labels and found.area.low is not None:
        return _estimated(found.area, found.labels.index(label), 3, href)
    return _mean(means.loc[label, "area"], spreads.loc[label, "area"], "area", href)


def _estimated(estimate: Estimate, index: int, digits: int, href: str) -> Cell:
    spread = ""
    if estimate.low is not None and estimate.high is not None:
        spread = f" [{estimate.low[index]:.{digits}f}, {estimate.high[index]:.{digits}f}]"
    return number(float(estimate.value[index]), digits, spread, href=href)


def _mean(mean: float, spread: float, column: str, href: str) -> Cell:
    _, factor, digits = COLUMNS[column]
    told = "" if math.isnan(spread) else f" ±{spread * factor:.{digits}f}"
    return number(mean, digits, told, factor, href)
