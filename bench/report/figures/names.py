"""Names beside the points of a figure, where there is room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes

from bench.report.figures.canvas import short
from bench.report.figures.picture import MUTED, PAPER

# Where a name may stand beside its point: points of the page to the right and up, and its alignment.
BESIDE = [(6, 0, "left"), (-6, 0, "right"), (0, 9, "center"), (0, -9, "center")]
BESIDE += [(x, y, "left" if x > 0 else "right") for x in (6, -6) for y in (8, -8)]
LETTER, LINE = 5.0, 9.0  # width of a letter and height of a name, in points of the page

Box = tuple[float, float, float, float]  # left, bottom, right, top, in points of the page


@dataclass(frozen=True)
class NamedPoint:
    """A point at (x, y), and its name in some colour.

    shift: how many points of the page it is drawn to the right of x. bar, across: from where to where its bars reach in
    y and in x.
    """

    name: str
    x: float
    y: float
    colour: str = MUTED
    shift: float = 0.0
    bar: tuple[float, float] | None = None
    across: tuple[float, float] | None = None


def name_points(axis: Axes, points: Sequence[NamedPoint]) -> None:
    """Name each point that has room beside it, the first before those that follow. The limits of ``axis`` are final."""
    here = [_on_page(axis, point, point.y) for point in points]
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in here]
    for point in points:
        if point.bar:
            (x, low), (_, high) = (_on_page(axis, point, end) for end in point.bar)
            taken.append((x - 2, low, x + 2, high))
        if point.across:
            (left, y), (right, _) = (_on_page(axis, replace(point, x=end), point.y) for end in point.across)
            taken.append((left, y - 2, right, y + 2))
    left, bottom, right, top = np.asarray(axis.get_window_extent().extents) * 72 / axis.figure.dpi
    for point, (x, y) in zip(points, here, strict=True):
        name = short(point.name)
        for dx, dy, side in BESIDE:
            box = _box(name, x + dx, y + dy, side)
            inside = box[0] >= left and box[1] >= bottom and box[2] <= right + 4 and box[3] <= top
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                axis.annotate(
                    name, (point.x, point.y), xytext=(dx + point.shift, dy), textcoords="offset points", ha=side,
                    va="center", fontsize=8, zorder=5, color=point.colour,
                    bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.3},
                )  # fmt: skip
                break


def _on_page(axis: Axes, point: NamedPoint, y: float) -> tuple[float, float]:
    """Where ``point`` would be drawn with this ``y``, in points of the page."""
    across, up = axis.transData.transform((point.x, y)) * 72 / axis.figure.dpi
    return across + point.shift, up


def _box(name: str, x: float, y: float, side: str) -> Box:
    """The room of a name that is aligned at (x, y)."""
    width = LETTER * len(name)
    left = x - {"left": 0, "right": width, "center": width / 2}[side]
    return left, y - LINE / 2, left + width, y + LINE / 2


def _overlap(one: Box, other: Box) -> bool:
    return one[0] <= other[2] and one[2] >= other[0] and one[1] <= other[3] and one[3] >= other[1]
