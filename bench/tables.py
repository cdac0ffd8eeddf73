"""Markdown tables that line up as plain text too."""

from __future__ import annotations


def aligned(rows: list[list[str]]) -> str:
    """``rows``, the first of which is the heading, as a table: first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: list[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        return f"| {' | '.join(cells)} |"

    rule = "| " + " | ".join(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]) + " |"
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])
