"""Metrics of sub-tasks as the field reports them: each sub-task's own metric at some levels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import mean

from bench.analysis.curves import removes
from bench.records.protocol import nearest_count
from bench.records.schema import FinishedRecord
from bench.report.tables.table import Cell, name_cell

MOST = 4  # levels shown; where there are more, only those nearest to USUAL
USUAL = (0.25, 0.5, 0.75)
SHOWN = ("acc_norm", "acc", "exact_match", "word_perplexity", "chrf")  # the first that a sub-task has
WINDOWED = "perplexity_"  # begins the name of a second perplexity, by tokens of windows, which is shown beside it
Rows = dict[tuple[bool, str], list[list[float]]]  # (removes neurons, label): for each seed quality, then metrics


def metric_tables(records: Sequence[FinishedRecord]) -> list[tuple[str, list[list[Cell]]]]:
    """A heading and a table for each level shown: one row per method, one column per sub-task.

    records: finished ones of one task and model. Values are means over draws and seeds; accuracies in per cent. The
    first row is the unpruned model. There are no tables where sub-tasks have no metrics that all records have.
    """
    every = [record.result.metrics[0][0] for record in records]
    names = _shown([name for name in every[0] if all(name in each for each in every)] if every else [])
    found: dict[int, Rows] = defaultdict(lambda: defaultdict(list))
    units = max((record.result.units for record in records), default=0)
    seeds: set[int] = set()  # each has one unpruned model, which is the same for all methods
    for record in records:
        result = record.result
        row = removes(record) != "heads", record.cell.label
        for place, removed in enumerate(result.removed):
            if not removed and record.cell.seed in seeds:
                continue
            metrics = [[draw[place][name] for draw in result.metrics] for name in names]
            values = [_mean([draw[place] for draw in result.quality]), *map(_mean, metrics)]
            found[removed][row if removed else (False, "unpruned")].append(values)
        seeds.add(record.cell.seed)
    unpruned = found.pop(0, {})
    return [
        (f"{removed} of {units} units removed", _table(names, unpruned, found[removed]))
        for removed in _levels(sorted(found), units)
        if names
    ]


def _shown(names: Sequence[str]) -> list[str]:
    """One metric of each sub-task, and its perplexity by tokens of windows, in the order of the sub-tasks."""
    metrics: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        task, _, metric = name.rpartition("/")
        metrics.setdefault(task, []).append(metric)
    shown = []
    for task, known in metrics.items():
        first = [metric for metric in SHOWN if metric in known][:1]
        shown += [f"{task}/{metric}" for metric in known if metric in first or metric.startswith(WINDOWED)]
    return shown


def _levels(removed: Sequence[int], units: int) -> list[int]:
    """Numbers of units removed to show: those between nothing and everything."""
    between = [number for number in removed if number < units]
    if len(between) <= MOST:
        return between
    return sorted({nearest_count(level, between, units) for level in USUAL})


def _table(names: Sequence[str], unpruned: Rows, rows: Rows) -> list[list[Cell]]:
    """Best quality (the first of each row's values) first; methods that remove neurons last."""
    means = {row: [_mean(values) for values in zip(*seeds, strict=True)] for row, seeds in (unpruned | rows).items()}
    order = sorted(rows, key=lambda row: (row[0], -means[row][0], row[1]))
    heading = [name.replace("/", ", ").replace("_", " ") for name in names]
    return [[name_cell(name) for name in ("method", *heading)]] + [
        [name_cell(row[1]), *(_cell(name, value) for name, value in zip(names, means[row][1:], strict=True))]
        for row in (*unpruned, *(row for row in order if row[1] != "none"))
    ]


def _mean(values: Sequence[float]) -> float:
    """The mean, correctly rounded; most are of a single draw, which ``mean`` would take its time for."""
    return float(values[0]) if len(values) == 1 else mean(values)


def _cell(name: str, value: float) -> Cell:
    if "perplexity" in name:
        return Cell(f"{value:.4g}", value)
    return Cell(f"{100 * value:.1f}", 100 * value)
