"""Which methods fit a budget, and how far each is behind the best of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, isfinite
from typing import Literal, TypeVar

import numpy as np

from bench.analysis.kinds import KINDS
from bench.analysis.stats.pairs import Difference, adjusted, difference
from bench.analysis.trade_offs.levels import TradeOffs
from bench.analysis.trade_offs.points import Mean, Point

ALPHA = 0.05
Number = TypeVar("Number", int, float)
ROUNDING = 1e-9
MOST = 8  # budgets of size
ALIKE = 0.01  # share of the parameters by which sizes may differ at most and be one budget
TIMES = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)  # shares of the unpruned model's time
LOSSES = (1.0, 2.0, 5.0, 10.0)  # points


@dataclass(frozen=True)
class Budget:
    """At most so much: a share of the unpruned model's parameters or of its time at ``batch``, or points lost.

    share: where points lost are a share of the unpruned model's quality, that share in per cent.
    """

    measure: Literal["left", "time", "lost"]
    most: float
    batch: int = 0
    share: float = 0.0

    def of(self, point: Point) -> Mean:
        """What ``point`` takes of the budget; NaN where it was not timed."""
        return {"left": Mean(point.left), "time": point.time(self.batch), "lost": point.lost}[self.measure]

    def fits(self, point: Point) -> bool:
        """Whether ``point`` is within the budget by the mean; False where it was not timed."""
        return self.of(point).value <= self.most + ROUNDING


@dataclass(frozen=True)
class Fit:
    """A method within a budget.

    more: by how many points it loses more than the best of its kind, in the same seeds; None for the best itself, and
    where the two have no sizes to compare at. p: of that by the sign-flip test, adjusted by Holm over the kind; None
    with too few seeds.
    """

    point: Point
    more: float | None = None
    p: float | None = None

    @property
    def shown_apart(self) -> bool:
        """Whether the seeds show a difference to the best."""
        return self.p is not None and self.p <= ALPHA


def within(points: Sequence[Point], budget: Budget) -> Point | None:
    """The point of a method, fewest removed first, that it meets a budget with; None where it does not.

    A budget of size or time is met by removing as little as it allows, of the levels that were timed where it is time,
    whatever that does to quality, as a choice by quality on the test data would flatter. A budget of quality is met by
    removing as much as it allows without exceeding it at a level before.
    """
    if budget.measure != "lost":
        return next((point for point in points if budget.fits(point)), None)
    over = next((place for place, point in enumerate(points) if not budget.fits(point)), len(points))
    return points[over - 1] if over else None


def answer(trade_offs: TradeOffs, budget: Budget) -> dict[str, list[Fit]]:
    """The methods that meet a budget by kind, best first; controls are left out, and kinds without any.

    Best is what loses least or, for a budget of quality, what leaves fewest parameters and of these, and of what is
    alike in size, loses least. Each other method of the kind is compared with it by the points lost in the same seeds:
    where each meets the budget or, for a budget of quality, where each is that small.
    """
    answers = {}
    for own in KINDS:
        of_kind = [label for label in trade_offs.methods if trade_offs.kinds[label] == own]
        fitting = [point for label in of_kind if (point := within(trade_offs.points[label], budget))]
        if fitting:
            answers[own] = _compared(trade_offs, best_first(trade_offs, fitting, budget), budget)
    return answers


def best_first(trade_offs: TradeOffs, points: Sequence[Point], budget: Budget) -> list[Point]:
    """Points within a budget by what is lost; for a budget of quality first the smallest and those alike in size."""
    same_size = size_of_smallest(trade_offs, points)

    def merit(point: Point) -> tuple[float, float, str]:
        larger = budget.measure == "lost" and not same_size.fits(point)
        return round(point.left, 6) if larger else 0.0, point.lost.value, point.label

    return sorted(points, key=merit)


def size_of_smallest(trade_offs: TradeOffs, points: Sequence[Point]) -> Budget:
    """The budget of size that the smallest of ``points`` meets, and those alike, as recovery may add a few biases."""
    sizes = [point.left for label in trade_offs.methods for point in trade_offs.points[label]]
    return Budget("left", min(point.left for point in points) + tolerance(sizes))


def tolerance(sizes: Sequence[float]) -> float:
    """By how much sizes may differ and be one budget: less than ``ALIKE`` where all of them are near each other."""
    return min(ALIKE, (max(sizes) - min(sizes)) / (2 * MOST)) if sizes else 0.0


def _compared(trade_offs: TradeOffs, fitting: Sequence[Point], budget: Budget) -> list[Fit]:
    best, others = fitting[0], fitting[1:]
    same_size = size_of_smallest(trade_offs, fitting)
    at = [within(trade_offs.points[each.label], same_size) if budget.measure == "lost" else each for each in others]
    differences = {other: _more(point, best) for other, point in zip(others, at, strict=True) if point}
    p = dict(zip(differences, adjusted([*differences.values()]), strict=True))
    return [Fit(best), *(Fit(each, differences[each].mean, p[each]) if each in p else Fit(each) for each in others)]


@lru_cache(maxsize=2**14)  # the same two are compared under many budgets
def _more(point: Point, best: Point) -> Difference:
    """By how many points one loses more."""
    return difference(point.losses, best.losses, ALPHA)


def size_budgets(trade_offs: TradeOffs) -> list[Budget]:
    """Budgets of size that the methods' own sizes suggest, largest first: each just allows a group of similar ones."""
    points = (point for label in trade_offs.methods for point in trade_offs.points[label])
    sizes = sorted((ceil(1000 * point.left - ROUNDING) / 1000 for point in points), reverse=True)
    largest: list[float] = []
    alike = tolerance(sizes)
    for size in sizes:
        if not largest or size < largest[-1] - alike - ROUNDING:
            largest.append(size)
    return [Budget("left", size) for size in evenly(largest, MOST)]


def time_budgets(trade_offs: TradeOffs, batch: int) -> list[Budget]:
    """Shares of the unpruned model's time that some method meets, but for those that every point does."""
    points = [point for label in trade_offs.methods for point in trade_offs.points[label]]
    timed = [point for point in points if isfinite(point.time(batch).value)]
    met = [budget for share in TIMES if any((budget := Budget("time", share, batch)).fits(point) for point in timed)]
    return [budget for budget in met if not all(budget.fits(point) for point in timed)] or met[-1:]


def loss_budgets(trade_offs: TradeOffs, accuracy: bool) -> list[Budget]:
    """Points of accuracy or, of another quality, the same per cent of the unpruned model's."""
    if accuracy:
        return [Budget("lost", loss) for loss in LOSSES]
    return [Budget("lost", loss * trade_offs.unpruned.quality / 100, share=loss) for loss in LOSSES]


def evenly(values: Sequence[Number], most: int) -> list[Number]:
    """At most so many of ``values``, the first and the last among them, evenly spread."""
    places = np.linspace(0, len(values) - 1, min(len(values), most)).round().astype(int)
    return [values[place] for place in places]
