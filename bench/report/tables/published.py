"""Figures that papers give, beside those measured here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import mean

import numpy as np

from bench.analysis.costs import forward_speedup, generation_speedup, level_index
from bench.analysis.curves import parameters_removed
from bench.analysis.kinds import share_trained
from bench.analysis.machines import machines
from bench.analysis.naming import count
from bench.analysis.quality import ACCURACY
from bench.records.schema import FinishedRecord, TaskKey
from bench.report.tables.markdown import aligned, literal
from bench.report.tables.papers import MEAN, METRIC, Column, Paper, PaperTable, data_name, papers

NAN = float("nan")
UNPRUNED = "unpruned"
GENERATION, FORWARD = "generation speed-up", "speed-up at batch BATCH"


@dataclass(frozen=True)
class Row:
    """A row as it is shown, from a paper or measured here.

    removed: of the table's ``whole``. name: the paper's name where ``published``, else a label, or ``unpruned``.
    figures: one for each column, NaN where there is none.
    """

    removed: int
    name: str
    published: bool
    figures: tuple[float, ...]

    @property
    def shown_name(self) -> str:
        """The name, marked where a paper gives the row."""
        return f"{self.name} (published)" if self.published else self.name


@dataclass(frozen=True)
class PaperComparison:
    """A paper's table, each row followed by those measured here on ``tasks``: one, or all that the mean is over.

    one_machine: whether one machine timed what was measured; speed-ups measured on several are left out. trained,
    limits: the shares of the task's own training that trained rows had, and of how many examples at most.
    """

    paper: Paper
    table: PaperTable
    tasks: tuple[TaskKey, ...]
    rows: tuple[Row, ...]
    one_machine: bool = True
    trained: tuple[float, ...] = ()
    limits: tuple[int, ...] = ()

    @property
    def measured(self) -> set[str]:
        """The methods that were measured beside those of the paper."""
        return {row.name for row in self.rows if not row.published} - {UNPRUNED}

    @property
    def measured_on(self) -> str:
        """The tasks in words, each with its data and model."""
        return "; ".join(f"{task.task}: {task.data}, {task.model}" for task in self.tasks)

    @property
    def explanation(self) -> str:
        """How to read the table, in Markdown."""
        table, paper = self.table, self.paper
        page = f"page {table.page}" if table.page else ""
        where = ", ".join(filter(None, [f"arXiv {paper.arxiv}", table.table, page]))
        metrics = [column for column in table.figures if column.kind == METRIC]
        means = [f"*mean*: over the {len(metrics)} tasks."] if MEAN in table.columns else []
        names = {data_name(task.data) for task in self.tasks}
        copies = ", each of which is the mean over its copies" if len(names) < len(self.tasks) else ""
        tasks = f"{count(len(names), 'task')}{copies}"
        over = [f"Measured accuracies are means over {tasks}, published ones over the paper's."] * table.over_tasks
        shares = " or ".join(f"{100 * share:.3g} %" for share in self.trained)
        limits = " or ".join(map(str, self.limits))
        mixed = not self.one_machine and any(column.kind in (GENERATION, FORWARD) for column in table.figures)
        words = [
            f"Rows marked *published* are from {paper.paper} ({where}), of {table.model}; they were not measured here.",
            f"*removed*: {table.unit}. Accuracies in per cent.",
            *(over or means),
            table.legend,
            "Speed-ups were measured on several machines, and are left out." if mixed else "",
            f"Methods that train had {shares} of the task's own training." if self.trained not in ((), (1.0,)) else "",
            f"Of each split at most {limits} examples were used." if limits else "",
        ]
        return " ".join(" ".join(words).split())


def side_by_side(records: Iterable[FinishedRecord]) -> list[PaperComparison]:
    """Every paper's table that has a row of some method among the finished ``records``, beside what they have.

    By paper and task; first the paper of which most methods were measured, as in a run of its suite. Measured values
    are means over draws and seeds. Where a table's figures are means over tasks, they are so over the tasks of one
    model, for the methods that have all of them; copies of one data set count once.
    """
    by_task: dict[TaskKey, list[FinishedRecord]] = defaultdict(list)
    for record in records:
        by_task[record.task].append(record)
    found = [
        _comparison(paper, table, tasks, [fitting[task] for task in tasks])
        for paper in papers()
        for table in paper.tables
        if (fitting := _fitting(table, by_task))
        for tasks in _together(table, sorted(fitting))
    ]
    measured: dict[str, set[str]] = defaultdict(set)
    for each in found:
        measured[each.paper.source] |= each.measured
    shown = (each for each in found if each.measured)
    return sorted(shown, key=lambda each: -len(measured[each.paper.source]))


def in_markdown(comparisons: Sequence[PaperComparison]) -> str:
    """The comparisons by paper, as tables in Markdown, each paper's with the differences in protocol."""
    parts = []
    for source, of_paper in groupby(comparisons, key=lambda each: each.paper.source):
        parts.append(f"### {literal(source)}")
        for each in of_paper:
            columns = each.table.figures
            rows = [["removed", "method", *(column.heading for column in columns)]]
            for row in each.rows:
                figures = (column.shown(value) for column, value in zip(columns, row.figures, strict=True))
                rows.append([each.table.amount(row.removed), row.shown_name, *figures])
            parts.append(f"{literal(each.table.name)}; measured on {literal(each.measured_on)}:")
            parts += [aligned([[literal(cell) for cell in row] for row in rows]), each.explanation]
        listed = "\n".join(f"- {literal(difference)}" for difference in each.paper.differences)
        parts.append(f"Differences in protocol:\n\n{listed}")
    return "\n\n".join(parts)


def _comparison(
    paper: Paper, table: PaperTable, tasks: tuple[TaskKey, ...], of_tasks: Sequence[Mapping[str, list[FinishedRecord]]]
) -> PaperComparison:
    """``of_tasks`` has the records of each task by label."""
    one_machine = len(machines(record for of_task in of_tasks for each in of_task.values() for record in each)) <= 1
    shown = tuple(_rows(table, of_tasks))
    rows = shown if one_machine else tuple(_without_times(table, row) for row in shown)
    beside = {row.name for row in rows if not row.published}
    used = [each for of_task in of_tasks for label in of_task if label in beside for each in of_task[label]]
    trained = tuple(sorted({share for each in used if (share := share_trained(each))}))
    limits = tuple(sorted({int(str(each.cell.asked["limit"])) for each in used if "limit" in each.cell.asked}))
    return PaperComparison(paper, table, tasks, rows, one_machine, trained, limits)


def _without_times(table: PaperTable, row: Row) -> Row:
    """``row`` without speed-ups that were measured here: neither means nor rows mix machines."""
    if row.published:
        return row
    figures = (
        NAN if column.kind in (GENERATION, FORWARD) else value
        for column, value in zip(table.figures, row.figures, strict=True)
    )
    return replace(row, figures=tuple(figures))


def _fitting(
    table: PaperTable, by_task: Mapping[TaskKey, Sequence[FinishedRecord]]
) -> dict[TaskKey, dict[str, list[FinishedRecord]]]:
    """The records that the table fits by task and method; without the tasks that it does not fit."""
    found: dict[TaskKey, dict[str, list[FinishedRecord]]] = defaultdict(lambda: defaultdict(list))
    for task, records in by_task.items():
        for record in filter(table.fits, records):
            found[task][record.cell.label].append(record)
    return dict(found)


def _together(table: PaperTable, tasks: Sequence[TaskKey]) -> list[tuple[TaskKey, ...]]:
    """The tasks whose figures make up one table."""
    if not table.over_tasks:
        return [(task,) for task in tasks]
    models = sorted({task.model for task in tasks})
    return [tuple(task for task in tasks if task.model == model) for model in models]


def _rows(table: PaperTable, of_tasks: Sequence[Mapping[str, Sequence[FinishedRecord]]]) -> Iterator[Row]:
    """The paper's rows, each followed by those of the methods that do the same; ``of_tasks`` has them by label."""
    labels = sorted(set.intersection(*(set(records) for records in of_tasks)))
    of_seeds = [
        list({record.cell.seed: record for own in records.values() for record in own}.values()) for records in of_tasks
    ]  # unpruned, all methods of a seed are one model
    unpruned = list(_measured(table, UNPRUNED, 0, of_seeds))
    if all(row.removed for row in table.rows):
        yield from unpruned
    for row in table.rows:
        yield Row(row.removed, row.name, True, row.figures)
        if not row.removed:
            yield from unpruned  # the same for every method
            continue
        for label in labels:
            if table.does_the_same(label, row.name):
                yield from _measured(table, label, row.removed, [records[label] for records in of_tasks])


def _measured(
    table: PaperTable, name: str, removed: int, of_tasks: Sequence[Sequence[FinishedRecord]]
) -> Iterator[Row]:
    """The row of one method with ``removed`` of the table's whole removed; none where that was not measured."""
    level = removed / table.whole
    values = [
        [[_figure(record, column, level) for column in table.figures] for record in records if _has(record, level)]
        for records in of_tasks
    ]
    if all(values):
        copies: dict[str, list[np.ndarray]] = defaultdict(list)  # of one data set, which counts once
        for records, seeds in zip(of_tasks, values, strict=True):
            copies[data_name(records[0].cell.data)].append(np.mean(seeds, axis=0))
        means = np.mean([np.mean(of_data, axis=0) for of_data in copies.values()], axis=0)
        yield Row(removed, name, False, tuple(_with_mean(table, means.tolist())))


def _has(record: FinishedRecord, level: float) -> bool:
    return level_index(record, level) is not None


def _with_mean(table: PaperTable, figures: Sequence[float]) -> Iterator[float]:
    """``figures``, with the mean over the metrics of sub-tasks in the column of that name."""
    metrics = [value for column, value in zip(table.figures, figures, strict=True) if column.kind == METRIC]
    for column, value in zip(table.figures, figures, strict=True):
        yield mean(metrics) if column.kind == MEAN else value


def _figure(record: FinishedRecord, column: Column, level: float) -> float:
    """The figure of a column with the share ``level`` removed, averaged over draws; NaN where the record has none."""
    result, place = record.result, level_index(record, level)
    assert place is not None
    if column.kind == METRIC:
        value = mean(draw[place][column.name] for draw in result.metrics)
        return value if "perplexity" in column.name else 100 * value
    figures: dict[str, Callable[[], float]] = {
        ACCURACY: lambda: 100 * mean(draw[place] for draw in result.quality),
        "parameters MODULE": lambda: result.parameters[place].get(column.name, NAN),
        "MB MODULE": lambda: result.megabytes[place].get(column.name, NAN),
        "parameters removed (%)": lambda: 100 * parameters_removed(record)[place],
        GENERATION: lambda: generation_speedup(record, level),
        FORWARD: lambda: forward_speedup(record, int(column.name), level),
        MEAN: lambda: NAN,  # of what the other columns give: ``_with_mean``
    }
    return float(figures[column.kind]())
