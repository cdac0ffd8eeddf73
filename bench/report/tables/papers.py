"""Tables of papers, as data: ``bench/suites/published`` has a file for each paper."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from bench.analysis.quality import ACCURACY, quality_name
from bench.records.schema import FinishedRecord

FOLDER = Path(__file__).parents[2] / "suites" / "published"
MEAN, METRIC = "mean", "TASK/METRIC"
# Options that make no other method: how much is drawn or tried, and how long gates take.
_SAME = re.compile(r"(?<=[:,])(draws|batch_size|schedule|learning_rate|weakest|spread|weights|most)=[^,]+,?")
# Kinds of columns, and the digits that are shown; a name in capitals stands for one of the record's.
KINDS = {
    ACCURACY: 2,
    MEAN: 2,
    "generation speed-up": 2,
    "speed-up at batch BATCH": 2,
    "parameters removed (%)": 2,
    "parameters MODULE": 0,
    "MB MODULE": 2,
    METRIC: 2,
}
_PATTERNS = {kind: re.compile(re.sub(r"[A-Z]{4,}", "(.+)", re.escape(kind))) for kind in KINDS}


@dataclass(frozen=True)
class Column:
    """A column of a paper's table: what it gives, as one of ``KINDS``, and the name in it, if there is one."""

    title: str
    kind: str
    name: str

    @classmethod
    def of(cls, title: str) -> Column:
        """The column with this title. Raises ValueError if it is of no kind."""
        for kind, pattern in _PATTERNS.items():
            if found := pattern.fullmatch(title):
                name = title if kind == METRIC else "".join(found.groups())
                return cls(title, kind, name)
        raise ValueError(f"column {title!r}: expected one of {', '.join(KINDS)}")

    @property
    def heading(self) -> str:
        """As tables show it."""
        return self.title.replace("/", ", ").replace("_", " ") if self.kind == METRIC else self.title

    def shown(self, value: float) -> str:
        """A figure of this column, or a dash where there is none."""
        return "–" if math.isnan(value) else f"{value:.{KINDS[self.kind]}f}"

    def is_in(self, record: FinishedRecord) -> bool:
        """Whether ``record`` has the quality that this column gives; columns of size and speed are in all records."""
        if self.kind == ACCURACY:
            return quality_name(record) == ACCURACY
        return self.kind != METRIC or self.name in record.result.metrics[0][0]


class PaperRow(BaseModel):
    """A row of a paper's table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    removed: int = Field(ge=0, description="how many are removed, of the table's ``whole``")
    name: str = Field(description="what the paper calls the method")
    figures: tuple[float, ...] = Field(description="one for each column, accuracies in per cent; NaN where not known")


class PaperTable(BaseModel):
    """A paper's table of one model, and which records it stands beside."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str = Field(min_length=1, description="which of the paper's tables or figures")
    page: PositiveInt | None = Field(None, description="of the paper on arXiv, where that is known")
    name: str = Field(description="what it gives")
    model: str
    task: str = Field("", description="adapter of the task; empty for any that has the columns")
    units: PositiveInt | None = Field(None, description="units of the model; None for any number")
    parameters: PositiveInt | None = Field(None, description="parameters of the unpruned model; None for any number")
    data: tuple[str, ...] = Field((), description="names of data sets, without what is before : or /; empty for any")
    over_tasks: bool = Field(False, description="whether figures are means over tasks")
    whole: PositiveInt = Field(description="how many there are of what is removed; records match at equal shares")
    what: str = Field(description="what is counted")
    per_cent: bool = Field(False, description="whether rows give per cent of it, and ``whole`` is 100 for that reason")
    columns: tuple[str, ...] = Field(description="each of one of ``KINDS``")
    legend: str = ""
    rows: tuple[PaperRow, ...]
    methods: dict[str, tuple[str, ...]] = Field({}, description="labels of methods here that do the same, by row name")

    @model_validator(mode="after")
    def _check(self) -> PaperTable:
        if wrong := [row for row in self.rows if len(row.figures) != len(self.figures) or row.removed > self.whole]:
            raise ValueError(f"{wrong[0]}: expected {len(self.columns)} figures, and at most {self.whole} removed")
        if unknown := self.methods.keys() - {row.name for row in self.rows}:
            raise ValueError(f"methods of a row that is not there: {', '.join(sorted(unknown))}")
        return self

    @property
    def figures(self) -> tuple[Column, ...]:
        """The columns."""
        return tuple(map(Column.of, self.columns))

    def amount(self, removed: int) -> str:
        """How much a row removes: ``14 of 144``, or ``10 %``."""
        return f"{removed} %" if self.per_cent else f"{removed} of {self.whole}"

    @property
    def unit(self) -> str:
        """What that is of: ``of 144 heads``, or ``per cent of the heads``."""
        return f"per cent of the {self.what}" if self.per_cent else f"of {self.whole} {self.what}"

    def fits(self, record: FinishedRecord) -> bool:
        """Whether ``record`` measured what the table is of: by task, architecture and quality, not by any path."""
        result, cell = record.result, record.cell
        return (
            self.task in ("", cell.task)
            and self.units in (None, result.units)
            and self.parameters in (None, result.parameters[0]["model"])
            and (not self.data or data_name(cell.data) in self.data)
            and all(column.is_in(record) for column in self.figures)
        )

    def does_the_same(self, label: str, name: str) -> bool:
        """Whether the method ``label`` does what the paper's row ``name`` says."""
        return _SAME.sub("", label).rstrip(":,") in self.methods.get(name, ())


def data_name(data: str) -> str:
    """The name of a data set without what is before : or /, which its copies may share."""
    return re.split("[:/]", data)[-1]


class Paper(BaseModel):
    """A paper with its tables."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paper: str = Field(min_length=1, description="authors and year")
    title: str = Field(min_length=1)
    arxiv: str = Field(pattern=r"^\d{4}\.\d{5}$")
    suite: str = Field(description="the suite that runs its experiments")
    differences: tuple[str, ...] = Field(description="between its protocol and the one here, a sentence or two each")
    tables: tuple[PaperTable, ...]

    @property
    def source(self) -> str:
        """How the paper is cited."""
        return f"{self.paper}, arXiv {self.arxiv}"


@cache
def papers() -> tuple[Paper, ...]:
    """All papers whose figures are on file, by file name."""
    return tuple(
        Paper.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))) for path in sorted(FOLDER.glob("*.toml"))
    )
