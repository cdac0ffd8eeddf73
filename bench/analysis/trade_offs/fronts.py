"""Which points no other one beats, by size or time, and those of random choice."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

import numpy as np

from bench.analysis.kinds import KINDS
from bench.analysis.trade_offs.budgets import ROUNDING, Budget, tolerance
from bench.analysis.trade_offs.levels import TradeOffs
from bench.analysis.trade_offs.points import Point

SIZE = "parameters"  # the axis of fronts by size


def front(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> list[int]:
    """Indices of the points that none beats, which would be no larger in ``x`` and in ``y`` and smaller in one.

    Of as many ``x`` as ``y``, without NaN. By x, then y. Points that are equal in both stay together.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    order = np.lexsort((y, x))
    kept: list[int] = []
    for place in order:
        last = kept[-1] if kept else None
        if last is None or y[place] < y[last] or (y[place] == y[last] and x[place] == x[last]):
            kept.append(int(place))
    return kept


def _grouped(values: Sequence[float], alike: float) -> list[float]:
    """For each of ``values`` the smallest one from which it, and all between, differ by ``alike`` at most."""
    groups: dict[float, float] = {}
    first = -inf
    for value in sorted(values):
        first = value if value > first + alike + ROUNDING else first
        groups[value] = first
    return [groups[value] for value in values]


def random_points(trade_offs: TradeOffs) -> dict[str, tuple[Point, ...]]:
    """By kind the points of the control that chooses at random or, of several, of the one that loses least."""
    chosen: dict[str, tuple[Point, ...]] = {}
    by_loss = sorted(
        trade_offs.random, key=lambda label: (float(np.mean([p.lost.value for p in trade_offs.points[label]])), label)
    )
    for label in by_loss:
        chosen.setdefault(trade_offs.kinds[label], trade_offs.points[label])
    return chosen


def fronts_of(trade_offs: TradeOffs) -> dict[str, dict[str, list[Point]]]:
    """By axis (``parameters``, or ``b8`` for the time at batch 8) and kind the points that no other one beats.

    Sizes that differ no more than those of one budget (``size_budgets``) count as the same.
    """
    alike = tolerance([point.left for label in trade_offs.methods for point in trade_offs.points[label]])
    axes = {SIZE: Budget("left", inf)} | {f"b{batch}": Budget("time", inf, batch) for batch in trade_offs.batches}
    fronts: dict[str, dict[str, list[Point]]] = {}
    for axis, budget in axes.items():
        for own in KINDS:
            points = [
                p for label in trade_offs.methods if trade_offs.kinds[label] == own for p in trade_offs.points[label]
            ]
            points = [point for point in points if isfinite(budget.of(point).value)]
            at = [budget.of(point).value for point in points]
            best = front(_grouped(at, alike if axis == SIZE else 0.0), [point.lost.value for point in points])
            if points:
                fronts.setdefault(axis, {})[own] = [points[place] for place in best]
    return fronts
