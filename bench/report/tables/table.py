"""One table, four uses: in a page, alone in a page, as CSV, and as LaTeX for a paper."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass
from itertools import chain

from bench.report.pages.markup import Safe, tag, text

# What LaTeX reads as a command, or sets as something else.
LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "²": "$^2$",
} | {sign: f"\\{sign}" for sign in "&%$#_"}


@dataclass(frozen=True)
class Cell:
    """What is shown, and the bare value that CSV holds and a reader sorts by."""

    shown: str
    value: float | str
    spread: str = ""  # ± or an interval, smaller
    href: str = ""
    heat: float | None = None  # 0 to 1: how dark its ground is


@dataclass(frozen=True)
class Heading:
    """A column."""

    shown: str
    key: str  # in CSV
    help: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under headings; the first column names the row.

    marks: for each row what a reader may filter by, as ``control trained``.
    """

    name: str  # of its files
    caption: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marks: tuple[str, ...] = ()


def name(label: str, href: str = "") -> Cell:
    """The cell of a name."""
    return Cell(label, label, href=href)


def number(
    value: float, digits: int, spread: str = "", factor: float = 1.0, href: str = "", missing: str = "–"
) -> Cell:
    """The cell of a number; ``missing`` is shown for NaN."""
    if math.isnan(value):
        return Cell(missing, value)
    return Cell(f"{value * factor:.{digits}f}", value, spread, href)


def html(table: Table, interactive: bool = False) -> Safe:
    """The table in a box that scrolls by itself; ``interactive`` ones are sorted and filtered by the page's script."""
    words = [isinstance(cell.value, str) for cell in table.rows[0]] if table.rows else [True] * len(table.headings)
    heads = [
        tag("th", heading.shown, scope="col", title=heading.help or None, class_="word" if word else None)
        for heading, word in zip(table.headings, words, strict=True)
    ]
    marks = table.marks or ("",) * len(table.rows)
    body = [
        tag("tr", *(_html(cell, not place) for place, cell in enumerate(row)), data_marks=mark or None)
        for row, mark in zip(table.rows, marks, strict=True)
    ]
    whole = tag(
        "table",
        tag("caption", table.caption),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *body),
        class_="board" if interactive else None,
    )
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=table.caption)


def _html(cell: Cell, first: bool) -> Safe:
    shown = tag("a", cell.shown, href=cell.href) if cell.href else text(cell.shown)
    content = text(shown, tag("small", cell.spread)) if cell.spread else shown
    if first:
        return tag("th", content, scope="row", data_v=str(cell.value))
    if cell.heat is not None:
        return tag("td", content, class_="heat", style=f"--v:{cell.heat:.2f}")
    if isinstance(cell.value, str):
        return tag("td", content, data_v=cell.value, class_="word")
    return tag("td", content, data_v="" if math.isnan(cell.value) else f"{cell.value:.9g}")


def to_csv(table: Table) -> bytes:
    """Bare values under keys; empty where there is no number. Spreads are in columns of their own."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    spread = [any(row[place].spread for row in table.rows) for place in range(len(table.headings))]
    keys = [[h.key, f"{h.key}_spread"] if wide else [h.key] for h, wide in zip(table.headings, spread, strict=True)]
    writer.writerow(chain.from_iterable(keys))
    for row in table.rows:
        cells = [
            [_bare(c), c.spread.strip(" ±[]")] if wide else [_bare(c)] for c, wide in zip(row, spread, strict=True)
        ]
        writer.writerow(chain.from_iterable(cells))
    return content.getvalue().encode()


def _bare(cell: Cell) -> str:
    if isinstance(cell.value, str):
        return cell.value
    return "" if math.isnan(cell.value) else f"{cell.value:.6g}"


def latex(table: Table) -> bytes:
    """A table for a paper, which needs the package booktabs alone."""
    words = [isinstance(cell.value, str) for cell in table.rows[0]] if table.rows else [True] * len(table.headings)
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(table.caption)}}}",
        rf"\label{{tab:{re.sub(r'[^a-z0-9-]', '-', table.name)}}}",
        rf"\begin{{tabular}}{{{''.join('l' if word else 'r' for word in words)}}}",
        r"\toprule",
        " & ".join(_latex(h.shown) for h in table.headings) + r" \\",
        r"\midrule",
        *(" & ".join(_latex(" ".join([c.shown, c.spread]).strip()) for c in row) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return ("\n".join(lines) + "\n").encode()


def _latex(shown: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in " ".join(shown.split()))
