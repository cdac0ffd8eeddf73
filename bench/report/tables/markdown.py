"""Tables and text in Markdown."""

from __future__ import annotations

import re

from bench.report.tables.table import Table


def literal(text: str) -> str:
    """``text`` in one line, with what is markup in Markdown escaped.

    ``&`` only where an entity begins, and ``_`` only where a word begins or ends.
    """
    return re.sub(r"([\\`*<>$|\[\]]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", " ".join(text.split()))


def aligned(rows: list[list[str]]) -> str:
    """A Markdown table whose columns are aligned as plain text too."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: list[str]) -> str:
        return (
            "| "
            + " | ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            + " |"
        )

    rule = "| " + " | ".join(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]) + " |"
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])


def table_in_markdown(table: Table) -> str:
    """A table under its caption."""
    rows = [[f"{cell.shown}{cell.spread}" for cell in row] for row in table.rows]
    heads = [heading.shown for heading in table.headings]
    return f"{literal(table.caption)}\n\n{aligned([[literal(cell) for cell in row] for row in [heads, *rows]])}\n"
