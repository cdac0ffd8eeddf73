"""Two methods over seeds and tasks: how much more quality one keeps, and whether the seeds can show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bench.analysis.stats.signflip import ROUNDING, check, samples_needed, sign_flip_interval, sign_flip_p


@dataclass(frozen=True)
class Difference:
    """Paired differences a - b, in the unit of what was given: of seeds on one task, or of tasks with their seeds."""

    by_task: tuple[tuple[float, ...], ...]  # the differences in the seeds of each task
    alpha: float
    seed: int
    mean: float  # over tasks of the mean over the seeds of each
    p: float | None  # of the sign-flip test by itself; None if so few differences cannot reach the level
    beats: float  # share of seeds in which a is above b, ties counted half; tasks have the same weight
    seeds: tuple[int, ...]  # of each task

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """Interval of the mean, for one test at the level alpha; None with too few differences for any."""
        return sign_flip_interval(np.concatenate(self.by_task), self.alpha, task_weights(self.seeds), self.seed)

    def seeds_needed(self, tests: int = 1) -> int:
        """Seeds of each task with which it could reach the level, as one of ``tests`` that are corrected for."""
        return -(-samples_needed(self.alpha, tests) // len(self.seeds))


def difference(a: Sequence[np.ndarray], b: Sequence[np.ndarray], alpha: float = 0.05, seed: int = 0) -> Difference:
    """Compare ``a`` and ``b``, for each task (seeds,), by the mean over tasks of the mean over seeds.

    The two are paired by seed: the same trained model, calibration sample and test documents. Of different tasks
    nothing is paired, as their models and draws are independent, so the sign of each seed's difference on each task is
    flipped by itself. A task may have more seeds than another; they then weigh less.

    p and the interval are for one test (``adjusted`` for several). Raises ValueError if a value is missing.
    """
    by_task = [_without_rounding(np.subtract(one, other)) for one, other in zip(a, b, strict=True)]
    d, weights = check(np.concatenate(by_task), task_weights([len(each) for each in by_task]))
    return Difference(
        by_task=tuple(tuple(map(float, each)) for each in by_task),
        alpha=alpha,
        seed=seed,
        mean=_mean(by_task),
        p=sign_flip_p(d, weights, seed) if len(d) >= samples_needed(alpha) else None,
        beats=_mean([(each > 0) + (each == 0) / 2 for each in by_task]),
        seeds=tuple(map(len, by_task)),
    )


def task_weights(seeds: Sequence[int]) -> np.ndarray:
    """Weights of values in a mean over tasks of the mean over ``seeds``, a number for each task: (sum of seeds,)."""
    return np.concatenate([np.full(count, 1 / (len(seeds) * count)) for count in seeds])


def _without_rounding(d: np.ndarray) -> np.ndarray:
    """``d`` with 0 for what only rounding made of it: means of the same numbers differ in their last bits."""
    return np.where(np.abs(d) <= ROUNDING, 0.0, d)


def _mean(by_task: Sequence[np.ndarray]) -> float:
    return float(np.mean([values.mean() for values in by_task]))


def adjusted(differences: Sequence[Difference]) -> list[float | None]:
    """p-values of tests that are made together, adjusted by ``holm``.

    With n differences p cannot go below 2 / 2^n, which has to reach the level divided by the number of tests. None
    where it does not, and the other tests do not help: one that rejects leaves fewer to correct the next one for.
    """
    p = holm([1.0 if each.p is None else each.p for each in differences]).tolist()
    return [
        value if sum(each.seeds) >= samples_needed(each.alpha, len(p)) or value <= each.alpha else None
        for each, value in zip(differences, p, strict=True)
    ]


def holm(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """p-values, (m,), adjusted for m tests by the step-down method of Holm (1979), in the order given.

    The i-th smallest is multiplied by m - i + 1, is no smaller than the one before, and at most 1. (The same as
    ``statsmodels.stats.multitest.multipletests``, which takes more than a second to import.)
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted
