"""Two methods over seeds: how much more quality one keeps, and whether the seeds can show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.analysis.stats.signflip import ROUNDING, check, samples_needed, sign_flip_interval, sign_flip_p


@dataclass(frozen=True)
class Difference:
    """Paired differences a - b over seeds, in the unit of what was given."""

    mean: float
    interval: tuple[float, float] | None  # None with too few seeds for any
    p: float | None  # of the sign-flip test; None if so few seeds cannot reach the level
    beats: float  # share of seeds in which a is above b, ties counted half
    seeds: int
    needed: int  # seeds with which the test could reach the level


def difference(a: np.ndarray, b: np.ndarray, alpha: float = 0.05, tests: int = 1, seed: int = 0) -> Difference:
    """Compare ``a`` and ``b``, (n,), paired by seed: the same trained model, calibration sample and test documents.

    ``tests``: how many such tests are corrected for together; with n seeds p cannot go below 2 / 2^n, which has to
    reach ``alpha / tests``. The interval is for one test. Raises ValueError if a value is missing.
    """
    d = check(np.subtract(a, b))
    needed = samples_needed(alpha, tests)
    return Difference(
        mean=float(d.mean()),
        interval=sign_flip_interval(d, alpha, seed),
        p=sign_flip_p(d, seed) if len(d) >= needed else None,
        beats=float(np.mean((d > ROUNDING) + (np.abs(d) <= ROUNDING) / 2)),
        seeds=len(d),
        needed=needed,
    )


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
