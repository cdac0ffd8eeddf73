"""The curve of a cell: quality against the share removed, and the area under it."""

from __future__ import annotations

import numpy as np

from bench.records.schema import FinishedRecord


def curve(record: FinishedRecord) -> tuple[np.ndarray, np.ndarray]:
    """Shares of units removed, (levels,), and quality there averaged over draws, (levels,)."""
    result = record.result
    return np.array(result.removed) / result.units, np.mean(result.quality, axis=0)


def parameters_removed(record: FinishedRecord) -> np.ndarray:
    """Share of all parameters removed at each level, (levels,), of the first draw."""
    left = np.array([size["model"] for size in record.result.parameters])
    return 1 - left / left[0]


def removes(record: FinishedRecord) -> str:
    """What the method removes: ``heads``, ``neurons``, or ``heads and neurons``."""
    result = record.result
    if not result.neurons:
        return "heads"
    some_heads = result.orders or any(len(kept) < result.units for kept in result.kept or ())
    return "heads and neurons" if some_heads else "neurons"


def area(shares: np.ndarray, quality: np.ndarray) -> np.ndarray:
    """Mean of ``quality``, (..., levels), over the ``shares`` removed, (levels,), by trapezoids: (...)."""
    return np.trapezoid(quality, shares) / (shares[-1] - shares[0])


def area_to(largest: float, shares: np.ndarray, quality: np.ndarray) -> float:
    """``area`` over the shares from 0 to ``largest``, with ``quality``, (levels,), linear between the levels."""
    grid = np.append(shares[shares < largest], largest)
    return float(area(grid, np.interp(grid, shares, quality)))
