"""The inflection point of a curve of quality, by a stated rule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.analysis.curves import curve
from bench.records.schema import FinishedRecord

ROUNDING = 1e-9  # distances closer than this are equal


class Knee(NamedTuple):
    """The inflection point of a cell: units removed, and quality there."""

    removed: int
    quality: float


def knee(shares: np.ndarray, quality: np.ndarray) -> int | None:
    """Index of the point farthest from the chord between both ends of a curve that is scaled to the unit square.

    shares, quality: (levels,), shares ascending. Of points that are as far, the one with the least removed; None where
    all lie on the chord, as on a flat curve. The scale is stated only to have one: the perpendicular distance of a
    point is its vertical one times the same factor for all points, however the axes are stretched.
    """
    height = np.ptp(quality)
    if not height:
        return None
    x = (shares - shares[0]) / (shares[-1] - shares[0])
    y = (quality - quality[0]) / height
    away = np.abs(y - y[-1] * x)
    return int(np.argmax(away >= away.max() - ROUNDING)) if away.max() > ROUNDING else None


def inflection(record: FinishedRecord) -> Knee | None:
    """The knee of the mean curve over draws of a cell that was measured after every single removal.

    None for other cells, and where there is no knee.
    """
    if record.result.removed != list(range(record.result.units - len(record.result.never_empty) + 1)):
        return None
    shares, quality = curve(record)
    place = knee(shares, quality)
    return None if place is None else Knee(place, float(quality[place]))
