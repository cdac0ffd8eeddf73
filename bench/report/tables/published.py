"""Figures that the AMP paper gives, beside those measured here: Mugnaini et al. 2025, arXiv 2504.21174."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from bench.analysis.costs import generation_speedup
from bench.records.protocol import count_at
from bench.records.schema import FinishedRecord
from bench.report.tables.markdown import aligned, literal

PARTS = 32  # heads of a layer of LLaMA-2-7B; its neurons can be divided by as many
SOURCE = "Mugnaini et al. 2025, arXiv 2504.21174"
METRICS = ("winogrande/acc", "hellaswag/acc_norm", "arc_easy/acc_norm", "arc_challenge/acc_norm", "piqa/acc_norm")
HEADINGS = (*(name.replace("/", ", ").replace("_", " ") for name in METRICS), "mean", "speed-up")
LEGEND = """\
Rows marked *published* are the paper's, of LLaMA-2-7B, and were not measured here; the others were, and are of the
model named above. Accuracies in per cent; *mean*: of the five tasks. Levels are of 32 parts of each layer's heads,
neurons or both; 3, 7 and 10 of both are 9.01, 21.02 and 30.03 % of LLaMA-2-7B's parameters; 30 of heads alone, and 15
of neurons alone, are about 30 %. *speed-up*: of generation, one text, 12 tokens of prompt and 128 new; the paper's on
one GPU. The authors' code recovers a model by LoRA before it evaluates it: rows are measured with and without that."""


@dataclass(frozen=True)
class Published:
    """A row of the paper's table of zero-shot accuracy.

    removed: parts of 32. accuracies: per cent, in the order of METRICS, then their mean. labels: of the methods here
    that do the same, without and with recovery; none for the unpruned model. speedup: of generation, None where it is
    not given.
    """

    removed: int
    name: str
    accuracies: tuple[float, ...]
    labels: tuple[str, ...] = ()
    speedup: float | None = None


@dataclass(frozen=True)
class Row:
    """A row as it is shown: one of the paper's, or one measured here.

    removed: parts of 32. name: a label, or ``unpruned``; that of the paper's where ``published``. accuracies: per cent,
    in the order of METRICS, then their mean. speedup: of generation, NaN where it is not known.
    """

    removed: int
    name: str
    published: bool
    accuracies: tuple[float, ...]
    speedup: float


AMP = ("amp", "amp-recovered")
RANDOM = ("random:allocation=layer,parts=both", "amp-recovered:choice=random")
NEURONS = ("amp-mlp", "amp-recovered:parts=neurons")
HEADS = ("amp-heads", "amp-recovered:parts=heads")
REVERSED = ("inverse-amp", "amp-recovered:choice=inverse")
ROWS = (
    Published(0, "unpruned", (69.14, 75.99, 74.58, 46.15, 79.11, 68.99), (), 1.0),
    Published(3, "AMP", (65.98, 75.02, 72.81, 47.10, 77.58, 67.70), AMP),
    Published(3, "random", (59.27, 69.63, 65.74, 41.13, 76.17, 62.39), RANDOM),
    Published(3, "reversed", (49.25, 26.55, 26.85, 27.47, 49.89, 36.00), REVERSED),
    Published(7, "AMP", (61.56, 69.22, 68.18, 42.06, 76.39, 63.48), AMP, 1.19),
    Published(7, "random", (58.72, 62.83, 54.21, 35.92, 73.18, 56.97), RANDOM),
    Published(7, "reversed", (47.91, 26.32, 26.89, 27.05, 50.49, 35.73), REVERSED),
    Published(10, "AMP", (61.25, 65.47, 64.31, 39.85, 74.21, 61.02), AMP),
    Published(10, "random", (55.25, 53.94, 50.55, 30.89, 68.82, 51.89), RANDOM),
    Published(10, "reversed", (48.22, 26.28, 25.51, 27.56, 49.67, 35.45), REVERSED),
    Published(15, "neurons alone", (57.14, 60.64, 59.81, 34.64, 72.42, 56.93), NEURONS),
    Published(30, "heads alone", (49.49, 28.13, 30.60, 24.23, 55.71, 37.63), HEADS),
)


def beside_published(records: Sequence[FinishedRecord]) -> str:
    """``side_by_side`` as a table in Markdown, with a legend; empty where that is."""
    rows = side_by_side(records)
    if not rows:
        return ""
    table = [["removed", "method", *HEADINGS]]
    for row in rows:
        name = f"{row.name} (published)" if row.published else row.name
        speedup = "–" if math.isnan(row.speedup) else f"{row.speedup:.2f}"
        table.append([f"{row.removed} of {PARTS}", name, *(f"{value:.2f}" for value in row.accuracies), speedup])
    return f"{aligned([[literal(cell) for cell in row] for row in table])}\n\n{LEGEND}"


def side_by_side(records: Sequence[FinishedRecord]) -> list[Row]:
    """The paper's rows, each followed by those measured at its level.

    records: finished ones of one task and model. Values are means over draws and seeds. Empty unless some record has
    all five tasks.
    """
    measured: dict[str, list[FinishedRecord]] = {}
    for record in records:
        if all(name in record.result.metrics[0][0] for name in METRICS):
            measured.setdefault(record.cell.label, []).append(record)
    if not measured:
        return []
    rows = []
    for row in ROWS:
        speedup = math.nan if row.speedup is None else row.speedup
        rows.append(Row(row.removed, row.name, True, row.accuracies, speedup))
        if not row.removed:
            rows += _measured("unpruned", 0, next(iter(measured.values())))  # the same in every record of a seed
        for label in sorted(measured):
            if re.sub(r"draws=\d+,", "", label) in row.labels:  # as many as anyone likes
                rows += _measured(label, row.removed, measured[label])
    return rows


def _measured(name: str, removed: int, records: Sequence[FinishedRecord]) -> list[Row]:
    """The row of one method, ``removed`` parts of 32 gone; none where that was not measured."""
    values: list[list[float]] = []
    speedups: list[float] = []
    for record in records:
        result, level = record.result, removed / PARTS
        if (count := count_at(level, result.units)) in result.removed:
            draws = [draw[result.removed.index(count)] for draw in result.metrics]
            values += [[100 * draw[metric] for metric in METRICS] for draw in draws]
            speedups.append(generation_speedup(record, level))
    if not values:
        return []
    means = [mean(column) for column in zip(*values, strict=True)]
    return [Row(removed, name, False, (*means, mean(means)), mean(speedups))]
