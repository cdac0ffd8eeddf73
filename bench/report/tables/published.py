"""Figures that papers give, beside those measured here on the same tasks; the figures are data in ``bench/suites``."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from bench.analysis.costs import generation_speedup
from bench.records.protocol import count_at
from bench.records.schema import FinishedRecord
from bench.report.tables.markdown import aligned, literal

FOLDER = Path(__file__).parents[2] / "suites" / "published"
_SIZES = re.compile(r"(draws|batch_size)=\d+,?")  # options that make no other method


class PaperRow(BaseModel):
    """A row of a paper's table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    removed: int = Field(ge=0, description="parts of each layer that are removed")
    name: str = Field(description="what the paper calls the method")
    model: str = Field("", description="where it is not the paper's main model, of which the table is")
    accuracies: tuple[float, ...] = Field(
        description="per cent, in the order of the metrics, then the mean as printed; NaN where not known"
    )
    speedup: float = Field(math.nan, description="of generation; NaN where the paper does not give it")

    @property
    def full_name(self) -> str:
        """The name, and the model if it is another one."""
        return f"{self.name}, {self.model}" if self.model else self.name


class Paper(BaseModel):
    """A paper's table of accuracies of one model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paper: str = Field(description="authors and year")
    title: str = ""
    arxiv: str = ""
    table: str = Field("", description="which of its tables")
    page: int | None = None
    model: str
    parts: PositiveInt = Field(description="parts that the heads, or neurons, of each layer are divided into")
    metrics: tuple[str, ...] = Field(description="as records call them, SUB-TASK/METRIC")
    legend: str = ""
    methods: dict[str, tuple[str, ...]] = Field({}, description="labels of methods here that do the same, by row name")
    rows: tuple[PaperRow, ...]

    @property
    def source(self) -> str:
        """How the paper is cited."""
        return ", ".join(filter(None, [self.paper, self.arxiv and f"arXiv {self.arxiv}"]))

    @property
    def headings(self) -> list[str]:
        """Of the columns with figures."""
        return [*(name.replace("/", ", ").replace("_", " ") for name in self.metrics), "mean", "speed-up"]

    @property
    def explanation(self) -> str:
        """How to read the table, in Markdown."""
        return (
            f"Rows marked *published* are from {self.source} ({self.table}), of {self.model}; they were not measured "
            "here. The others were, and are of the model named above. Accuracies in per cent; *mean*: over the "
            f"{len(self.metrics)} tasks. {' '.join(self.legend.split())}"
        )


@dataclass(frozen=True)
class Row:
    """A row as it is shown, from a paper or measured here.

    removed: parts. name: the paper's name where ``published``, else a label, or ``unpruned``. accuracies: per cent, in
    the order of the paper's metrics, then their mean. speedup: of generation. Both are NaN where not known.
    """

    removed: int
    name: str
    published: bool
    accuracies: tuple[float, ...]
    speedup: float

    @property
    def shown_name(self) -> str:
        """The name, marked where a paper gives the row."""
        return f"{self.name} (published)" if self.published else self.name


@cache
def papers() -> tuple[Paper, ...]:
    """All papers whose figures are on file, by file name."""
    return tuple(
        Paper.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))) for path in sorted(FOLDER.glob("*.toml"))
    )


def side_by_side(records: Sequence[FinishedRecord]) -> list[tuple[Paper, list[Row]]]:
    """The rows of each paper whose metrics some record has, each row followed by those measured at its level.

    records: finished ones of one task and model. Measured values are means over draws and seeds.
    """
    found = []
    for paper in papers():
        measured: dict[str, list[FinishedRecord]] = {}
        for record in records:
            if all(name in record.result.metrics[0][0] for name in paper.metrics):
                measured.setdefault(record.cell.label, []).append(record)
        if measured:
            found.append((paper, _rows(paper, measured)))
    return found


def in_markdown(paper: Paper, rows: Sequence[Row]) -> str:
    """A paper's rows and ours as a table in Markdown, with an explanation."""
    table = [["removed", "method", *paper.headings]]
    for row in rows:
        figures = ("–" if math.isnan(value) else f"{value:.2f}" for value in (*row.accuracies, row.speedup))
        table.append([f"{row.removed} of {paper.parts}", row.shown_name, *figures])
    return f"{aligned([[literal(cell) for cell in row] for row in table])}\n\n{paper.explanation}"


def _rows(paper: Paper, measured: dict[str, list[FinishedRecord]]) -> list[Row]:
    rows = []
    for row in paper.rows:
        rows.append(Row(row.removed, row.full_name, True, row.accuracies, row.speedup))
        if row.model:
            continue
        if not row.removed:
            rows += _measured(paper, "unpruned", 0, next(iter(measured.values())))  # the same for every method
        for label in sorted(measured):
            if _SIZES.sub("", label).rstrip(":,") in paper.methods.get(row.name, ()):
                rows += _measured(paper, label, row.removed, measured[label])
    return rows


def _measured(paper: Paper, name: str, removed: int, records: Sequence[FinishedRecord]) -> list[Row]:
    """The row of one method with ``removed`` parts removed; none where that was not measured."""
    values: list[list[float]] = []
    speedups: list[float] = []
    for record in records:
        result, level = record.result, removed / paper.parts
        if (count := count_at(level, result.units)) in result.removed:
            draws = [draw[result.removed.index(count)] for draw in result.metrics]
            values += [[100 * draw[metric] for metric in paper.metrics] for draw in draws]
            speedups.append(generation_speedup(record, level))
    if not values:
        return []
    means = [mean(column) for column in zip(*values, strict=True)]
    return [Row(removed, name, False, (*means, mean(means)), mean(speedups))]
