"""What the studies share: a table that grows line by line beside the script, and the look of their figures."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def lines(table: Path) -> list[dict[str, str]]:
    """The lines of a table so far; none where it does not exist."""
    if not table.exists():
        return []
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def add(table: Path, columns: Sequence[str], new: Iterable[Mapping[str, Any]]) -> None:
    """Add lines to a table, which begins with ``columns``."""
    first = not table.exists()
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if first:
            writer.writeheader()
        writer.writerows(new)


def empty_figure(width: float, height: float) -> Any:
    """A matplotlib figure, in inches, whose SVG is the same each time it is drawn."""
    import matplotlib

    matplotlib.rcParams |= {"svg.hashsalt": "headbench", "svg.fonttype": "none", "font.size": 9}
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> None:
    """Write a figure as SVG, without the date."""
    figure.savefig(path, metadata={"Date": None, "Creator": None})
