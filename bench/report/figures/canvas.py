"""What figures share: axes with room around them, legends, names that fit, and maps of cells."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from bench.report.figures.picture import INK, SERIES

SIZE = (4.4, 3.7)  # inches
LEFT, RIGHT = 0.7, 0.12  # inches beside an axis: for its ticks and what it is called, and for the last tick
LEGEND_ROW = 0.175  # inches
TITLE_ROW, LETTER = 0.16, 0.073  # inches of a line of a title, and of one of its letters
LEGEND_LETTER, LEGEND_LINE = 0.068, 0.48  # inches of a letter of a legend, and of the line and the gaps beside a name
LONGEST = 28  # characters of a name in a figure
OTHERS = "others"  # the name of all that has no look of its own
LEVEL = 0.5  # share of heads removed at which figures show which heads are kept, and how gates were trained
FAINTEST = 0.06  # opacity of a cell of value 0
FILLED = 0.93  # side of a cell that is filled; the rest parts it from the next


def canvas(title: str, x: str, y: str, size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    """A figure with one axis and fixed room around it, which is much faster than a layout that is computed.

    A title of several lines makes it higher.
    """
    lines = wrapped(title, size[0] - LEFT - RIGHT)
    wide, high = size[0], size[1] + TITLE_ROW * (len(lines) - 1)
    figure = Figure(figsize=(wide, high))
    top = 0.25 + TITLE_ROW * (len(lines) - 1)
    figure.subplots_adjust(left=LEFT / wide, right=1 - RIGHT / wide, bottom=0.5 / high, top=1 - top / high)
    axis = figure.subplots()
    axis.set_title("\n".join(lines), loc="left", color=INK)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    return figure, axis


def wrapped(title: str, wide: float) -> list[str]:
    """The lines of a title that stands on a figure so many inches wide."""
    return textwrap.wrap(title, int(wide / LETTER)) or [""]


def legend(figure: Figure, axis: Axes) -> None:
    """A legend below, in two columns where the names fit, else on a higher figure.

    All lines called ``others`` have one entry, the last.
    """
    every = list(zip(*axis.get_legend_handles_labels(), strict=True))
    entries = [entry for entry in every if entry[1] != OTHERS] + [entry for entry in every if entry[1] == OTHERS][:1]
    wide, high = figure.get_size_inches()
    fits = max((len(name) for _, name in entries), default=0) * LEGEND_LETTER + LEGEND_LINE <= 0.98 * wide / 2
    rows_of_two = -(-len(entries) // 2)
    columns, rows = (2, rows_of_two) if fits else (1, len(entries))
    above = (1 - figure.subplotpars.top) * high
    high += LEGEND_ROW * (rows - rows_of_two)
    figure.set_size_inches(wide, high)
    figure.subplots_adjust(bottom=(0.55 + LEGEND_ROW * rows) / high, top=1 - above / high)
    figure.legend(
        *zip(*entries, strict=True),
        loc="lower left",
        bbox_to_anchor=(0.02, 0),
        ncols=columns,
        fontsize=8.5,
        handlelength=2.6,
        borderaxespad=0,
        labelspacing=0.3,
    )


def short(label: str, longest: int = LONGEST) -> str:
    """A name that fits, cut in the middle, as methods with options begin alike; tables show the whole name."""
    line = " ".join(label.split())
    head = longest // 2 - 1
    return line if len(line) <= longest else f"{line[:head]}…{line[head + 1 - longest :]}"


def names_of(labels: Iterable[str], cut: Callable[[str], str] = short) -> dict[str, str]:
    """A name that fits for each label, no two alike in one figure: those that ``cut`` makes alike are told apart."""
    names = {label: cut(label) for label in labels}
    for alike in _alike(names):
        names |= {label: cut(name) for label, name in told_apart(alike).items()}
    for alike in _alike(names):
        names |= {label: f"{names[label]} ({number})" for number, label in enumerate(alike, 1)}
    return names


def _alike(names: Mapping[str, str]) -> list[list[str]]:
    """The labels that share a name, name by name."""
    by_name: dict[str, list[str]] = {}
    for label, name in names.items():
        by_name.setdefault(name, []).append(label)
    return [labels for labels in by_name.values() if len(labels) > 1]


def in_two(label: str, longest: int) -> str:
    """A name in two lines, broken before its options or between two of them, where one would be too long."""
    if len(label) <= longest:
        return label
    cut = 1 + max(label.rfind(sign, 0, longest) for sign in ":,") or longest
    return f"{label[:cut]}\n{short(label[cut:], longest)}"


def told_apart(labels: Sequence[str]) -> dict[str, str]:
    """A name for each label: its method with those options alone that other labels of the method have not."""
    options = {label: label.partition(":")[2].split(",") for label in labels}
    names = {}
    for label in labels:
        method = label.partition(":")[0]
        others = [own for other, own in options.items() if other.partition(":")[0] == method]
        own = [option for option in options[label] if option and not all(option in each for each in others)]
        names[label] = f"{method}:{','.join(own)}" if own else method
    return names


def heading(figure: Figure, lines: Sequence[str]) -> None:
    """The lines of a title at the top left of a figure of several axes, which has to leave room for them."""
    wide, high = figure.get_size_inches()
    figure.text(0.05 / wide, 1 - 0.05 / high, "\n".join(lines), va="top", fontsize=9.5)


def cell_map(
    axis: Axes,
    rows: Sequence[np.ndarray],
    text: Callable[[int, int], str] | None = None,
    colour: str = SERIES[0],
    blank: bool = False,
    size: float = 7,
) -> None:
    """Square cells, the first row at the top, filled the more the larger their value, 0 to 1.

    text: what is written in the cell at (row, column). blank: whether cells of value 0 are left out, and not faint.
    """
    squares: dict[float, list[Path]] = {}
    for y, values in enumerate(rows):
        for x, value in enumerate(values):
            corners = [(x, y), (x + FILLED, y), (x + FILLED, y + FILLED), (x, y + FILLED), (x, y)]
            if value or not blank:
                squares.setdefault(round(float(value), 2), []).append(Path(corners, closed=True))
            if text:
                middle = (x + FILLED / 2, y + FILLED / 2)
                axis.text(*middle, text(y, x), ha="center", va="center", fontsize=size)
    for value, paths in sorted(squares.items()):  # one path for all cells of a value: a tenth of the bytes
        together = Path.make_compound_path(*paths)
        axis.add_patch(PathPatch(together, facecolor=colour, linewidth=0, alpha=FAINTEST + 0.6 * value))
    axis.set_xlim(0, max(map(len, rows)))
    axis.set_ylim(len(rows), 0)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0, labelcolor=INK)


def name_cells(axis: Axes, columns: Sequence[Any], rows: Sequence[Any], size: float = 9, rotation: float = 0) -> None:
    """Names of the columns and rows of a map; of many layers only some are named."""
    step = 1 + len(rows) // 16 if all(isinstance(row, int) for row in rows) else 1
    axis.set_xticks(np.arange(len(columns)) + FILLED / 2, list(map(str, columns)), fontsize=size, rotation=rotation)
    axis.set_yticks(np.arange(0, len(rows), step) + FILLED / 2, list(map(str, rows[::step])), fontsize=size)
