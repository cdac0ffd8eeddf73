"""The curve of a cell: quality against the share removed, and the area under it."""

from __future__ import annotations

import numpy as np

from bench.records.protocol import count_at
from bench.records.schema import FinishedRecord


def curve(record: FinishedRecord) -> tuple[np.ndarray, np.ndarray]:
    """Shares of units removed, (levels,), and quality there averaged over draws, (levels,)."""
    result = record.result
    quality = np.array(result.quality)
    return np.array(result.removed) / result.units, quality[0] if len(quality) == 1 else quality.mean(axis=0)


def parameters_removed(record: FinishedRecord) -> np.ndarray:
    """Share of all parameters removed at each level, (levels,), of the first draw."""
    left = np.array([size["model"] for size in record.result.parameters])
    return 1 - left / left[0]


def removes_parameters(record: FinishedRecord) -> bool:
    """Whether the model is smaller at some level."""
    first, *others = (size["model"] for size in record.result.parameters)
    return any(left != first for left in others)


def removes(record: FinishedRecord) -> str:
    """What the method removes: ``heads``, ``neurons``, or ``heads and neurons``."""
    result = record.result
    if not result.neurons:
        return "heads"
    some_heads = result.orders or any(len(kept) < result.units for kept in result.kept or ())
    return "heads and neurons" if some_heads else "neurons"


def share_emptied(record: FinishedRecord, level: float) -> float:
    """Share of draws in which some attention module has no unit left with the share ``level`` of the units removed.

    NaN if the level was not measured, or the record does not say which units are in which module.
    """
    result = record.result
    removed = count_at(level, result.units)
    if removed not in result.removed or sum(result.shape) != result.units:
        return float("nan")
    if result.orders:
        kept = [order[removed:] for order in result.orders]
    else:
        kept = [result.kept[result.removed.index(removed)]] if result.kept else []
    module = np.repeat(np.arange(len(result.shape)), result.shape)  # of each unit
    left = [np.bincount(module[units], minlength=len(result.shape)) for units in kept]  # units of each module
    some = np.array(result.shape) > 0
    return float(np.mean([(each[some] == 0).any() for each in left])) if left else 0.0


def area(shares: np.ndarray, quality: np.ndarray) -> np.ndarray:
    """Mean of ``quality``, (..., levels), over the ``shares`` removed, (levels,), by trapezoids: (...)."""
    return np.trapezoid(quality, shares) / (shares[-1] - shares[0])


def area_to(largest: float, shares: np.ndarray, quality: np.ndarray) -> float:
    """``area`` over the shares from 0 to ``largest``, with ``quality``, (levels,), linear between the levels.

    Shares beyond the last are left out: models that cannot lose all of their heads have none there. In plain numbers,
    as records are many and levels few.
    """
    x, y = shares.tolist(), quality.tolist()
    largest = min(largest, x[-1])
    inside = sum(share < largest for share in x)
    slope = (y[inside] - y[inside - 1]) / (x[inside] - x[inside - 1])
    last = y[inside] if x[inside] == largest else slope * (largest - x[inside - 1]) + y[inside - 1]
    x, y = [*x[:inside], largest], [*y[:inside], last]
    total = sum((b - a) * (v + w) / 2 for a, b, v, w in zip(x, x[1:], y, y[1:], strict=False))
    return total / (largest - x[0])
