"""A table of a report: for a page, as CSV, and as LaTeX for a paper."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby

from bench.analysis.naming import fixed

# Characters that LaTeX reads as commands or sets as something else.
LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "−": "$-$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "²": "$^2$",
} | {sign: f"\\{sign}" for sign in "&%$#_"}


@dataclass(frozen=True)
class Cell:
    """What is shown, and the bare value for CSV and for sorting."""

    shown: str
    value: float | str
    spread: str = ""  # ± or an interval, shown smaller
    more: tuple[tuple[str, float], ...] = ()  # names of what that shows, and their values, in the unit of the value
    href: str = ""
    heat: float | None = None  # 0 to 1: how dark the background is

    @property
    def is_text(self) -> bool:
        """Whether the value is a word: these are aligned to the left."""
        return isinstance(self.value, str)

    def bare(self, digits: int = 6) -> str:
        """The value with so many significant digits, all where it is whole; empty where there is no number."""
        return self.value if isinstance(self.value, str) else bare(self.value, digits)


@dataclass(frozen=True)
class Heading:
    """A column."""

    shown: str
    key: str  # in CSV
    help: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under headings; the first column names the row.

    marks: for each row, words to filter by, such as ``control trained``.
    groups: for each row, the heading of the group that it is in; rows of a group stand together.
    """

    name: str  # of its files
    caption: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marks: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def text_columns(self) -> list[bool]:
        """Which columns hold words."""
        return [cell.is_text for cell in self.rows[0]] if self.rows else [True] * len(self.headings)

    @property
    def explained(self) -> list[tuple[str, str]]:
        """Headings that need words, and these."""
        return [(heading.shown, heading.help) for heading in self.headings if heading.help]

    @property
    def parts(self) -> list[tuple[str, list[int]]]:
        """The groups, each with the numbers of its rows; one without a heading where there are no groups."""
        groups = self.groups or ("",) * len(self.rows)
        return [(group, list(rows)) for group, rows in groupby(range(len(self.rows)), key=lambda row: groups[row])]


def bare(value: float, digits: int = 6) -> str:
    """A number with so many significant digits, all of those of a whole one; empty for NaN."""
    if float(value).is_integer():
        return str(int(value))
    return "" if math.isnan(value) else f"{value:.{digits}g}"


def name_cell(label: str, href: str = "") -> Cell:
    """The cell of a name."""
    return Cell(label, label, href=href)


def number_cell(
    value: float,
    digits: int,
    *,
    sd: float = math.nan,
    ends: tuple[float, float] | None = None,
    factor: float = 1.0,
    href: str = "",
    missing: str = "–",
) -> Cell:
    """The cell of a number, which is shown times ``factor``; ``missing`` is shown for NaN.

    ends: of its interval. sd: its standard deviation, which is shown where there is no interval.
    """
    if math.isnan(value):
        return Cell(missing, value)
    spread = ""
    more: tuple[tuple[str, float], ...] = ()
    if ends is not None:
        spread = f" [{fixed(ends[0] * factor, digits)}, {fixed(ends[1] * factor, digits)}]"
        more = (("low", ends[0]), ("high", ends[1]))
    elif not math.isnan(sd):
        spread, more = f" ±{sd * factor:.{digits}f}", (("sd", sd),)
    return Cell(fixed(value * factor, digits), value, spread, more, href)


def to_csv(table: Table) -> bytes:
    """Bare values, empty where there is no number; deviations, intervals and p-values have columns of their own."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    places = range(len(table.headings))
    more = [list(dict.fromkeys(key for row in table.rows for key, _ in row[place].more)) for place in places]
    keys = [[h.key, *(f"{h.key}_{key}" for key in own)] for h, own in zip(table.headings, more, strict=True)]
    writer.writerow(chain.from_iterable(keys))
    for row in table.rows:
        cells = [
            [cell.bare(), *(bare(dict(cell.more).get(key, math.nan)) for key in own)]
            for cell, own in zip(row, more, strict=True)
        ]
        writer.writerow(chain.from_iterable(cells))
    return content.getvalue().encode()


def latex(table: Table) -> bytes:
    """A table for a paper, which needs only the package booktabs."""
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(table.caption)}}}",
        rf"\label{{tab:{re.sub(r'[^a-z0-9-]', '-', table.name)}}}",
        rf"\begin{{tabular}}{{{''.join('l' if word else 'r' for word in table.text_columns)}}}",
        r"\toprule",
        " & ".join(_latex(h.shown) for h in table.headings) + r" \\",
        r"\midrule",
        *_latex_rows(table),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return ("\n".join(lines) + "\n").encode()


def _latex_rows(table: Table) -> Iterator[str]:
    """The rows, each group below a line and its heading."""
    for place, (group, rows) in enumerate(table.parts):
        if group:
            yield from [r"\midrule"] * (place > 0)
            yield rf"\multicolumn{{{len(table.headings)}}}{{l}}{{\emph{{{_latex(group)}}}}} \\"
        for row in rows:
            yield " & ".join(_latex(" ".join([cell.shown, cell.spread]).strip()) for cell in table.rows[row]) + r" \\"


def _latex(shown: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in " ".join(shown.split()))
