"""Exact inference on paired differences: the sign-flip permutation test and the interval that belongs to it.

Under the null hypothesis each difference is as likely to be d as -d, whatever its size: the p-value is the share of all
2^n ways of flipping signs whose sum is at least as far from 0 as the one observed (Fisher 1935, §21). The values θ at
which the test of d - θ does not reject are an interval whose ends are ordered means of subsets of the differences
(Hartigan 1969, "Using subsample values as typical values"): a bootstrap over subsamples, exact for n differences that
are independent and symmetric, however few and however unequal in spread. It leaves 0 out exactly when p <= alpha.
(A percentile bootstrap of six differences misses in 13 % of cases, not in 5.)
"""

from __future__ import annotations

import math

import numpy as np

EXACT = 20  # differences; beyond, 2^16 random flips stand for all
SAMPLED = 2**16
ROUNDING = 1e-9  # sums that differ by less, relative to the sum of absolute differences, are equal


def sign_flip_p(differences: np.ndarray, seed: int = 0) -> float:
    """Two-sided p-value of the hypothesis that ``differences``, (n,), are symmetric around 0.

    Exact up to 20 differences; else (1 + hits) / (1 + flips) of random ones, by ``seed`` (Phipson & Smyth 2010).
    Raises ValueError if a difference is missing, or there are none.
    """
    d = check(differences)
    least = abs(d.sum()) - ROUNDING * np.abs(d).sum()
    if len(d) <= EXACT:
        if least <= 0:
            return 1.0
        # Every sum is one of the first half's and one of the second's: counted in 2^(n/2) steps instead of 2^n.
        first, second = _signed_sums(d[: len(d) // 2]), np.sort(_signed_sums(d[len(d) // 2 :]))
        above = len(second) - np.searchsorted(second, least - first, side="left")
        below = np.searchsorted(second, -least - first, side="right")
        return float((above.sum() + below.sum()) / 2 ** len(d))
    signs = np.where(_random_subsets(len(d), seed), -1.0, 1.0)
    return float((1 + np.sum(np.abs(signs @ d) >= least)) / (1 + SAMPLED))


def sign_flip_interval(differences: np.ndarray, alpha: float = 0.05, seed: int = 0) -> tuple[float, float] | None:
    """Interval (low, high) for the centre of ``differences``, (n,), with confidence 1 - ``alpha``.

    None if n is too small: below ``samples_needed(alpha)``. Raises ValueError if a difference is missing.
    """
    d = check(differences)
    if len(d) <= EXACT:
        sums, sizes = np.zeros(1), np.zeros(1)
        for value in d:
            sums, sizes = np.concatenate([sums, sums + value]), np.concatenate([sizes, sizes + 1])
    else:
        chosen = _random_subsets(len(d), seed).astype(float)
        sums, sizes = chosen @ d, chosen.sum(1)
    means = np.sort(sums[sizes > 0] / sizes[sizes > 0])
    rank = int(alpha / 2 * (len(means) + 1) + ROUNDING)
    return (float(means[rank - 1]), float(means[-rank])) if rank else None


def samples_needed(alpha: float, tests: int = 1) -> int:
    """Smallest n at which the smallest two-sided p-value, 2 / 2^n, reaches ``alpha`` corrected for ``tests`` tests."""
    return math.ceil(1 + math.log2(tests / alpha) - ROUNDING)


def check(values: np.ndarray) -> np.ndarray:
    """``values``, (n,), as floats. Raises ValueError if there are none, or one is missing."""
    d = np.asarray(values, dtype=float)
    if d.ndim != 1 or not len(d) or not np.isfinite(d).all():
        raise ValueError(f"expected differences without gaps, not {d.tolist()}")
    return d


def _signed_sums(d: np.ndarray) -> np.ndarray:
    """Sums of ``d``, (n,), with all ways of signs: (2^n,)."""
    sums = np.zeros(1)
    for value in d:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _random_subsets(n: int, seed: int) -> np.ndarray:
    """(SAMPLED, n) bool, each subset of n as likely as any other."""
    return np.random.default_rng(seed).integers(0, 2, size=(SAMPLED, n), dtype=np.int8).astype(bool)
