"""Two pruned models on the same documents, at one level: is the difference larger than chance in drawing documents?

The answer is about these two models. About the methods that pruned them only several seeds can tell
(``bench.analysis.stats.pairs``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST, MOST = 1000, 100_000  # draws of a bootstrap
BLOCK = 1000  # of these that are held at once


@dataclass(frozen=True)
class McNemar:
    """Documents that only one model gets right, and the exact two-sided p-value for equal numbers of them."""

    only_a: int
    only_b: int
    p: float


def mcnemar(a: np.ndarray, b: np.ndarray) -> McNemar:
    """Exact test of McNemar (1947) on outcomes ``a`` and ``b``, (N,) bool, of the same documents.

    Of the n documents on which the models differ, each is as likely to favour either: p = 2 P(Bin(n, 1/2) <= min),
    at most 1. Raises ValueError if they are not outcomes of the same number of documents.
    """
    if a.shape != b.shape or a.dtype != bool or b.dtype != bool:
        raise ValueError(f"expected outcomes of the same documents, not {a.dtype} {a.shape} and {b.dtype} {b.shape}")
    only_a, only_b = int(np.sum(a & ~b)), int(np.sum(b & ~a))
    n = only_a + only_b
    tail, ways = 0, 1  # exact in whole numbers, and without the second that importing scipy.stats takes
    for k in range(min(only_a, only_b) + 1):
        tail += ways
        ways = ways * (n - k) // (k + 1)  # of choosing k + 1 of n
    return McNemar(only_a, only_b, min(1.0, 2 * tail / 2**n))


@dataclass(frozen=True)
class Interval:
    """A mean with its interval."""

    mean: float
    low: float
    high: float


def document_bootstrap(
    a: np.ndarray,
    b: np.ndarray,
    parts: Sequence[int] = (),
    alpha: float = 0.05,
    draws: int | None = None,
    seed: int = 0,
) -> Interval:
    """Mean difference of outcomes, a - b, with a paired percentile interval over documents.

    ``a``, ``b``: (seeds, N), outcomes or their means over random draws, of the same documents in the same order. A
    document is drawn with its outcomes in all seeds (Efron & Tibshirani 1993, ch. 13). ``parts``: sizes of sub-tasks
    whose documents follow one another; documents are then drawn within each, and the mean is the mean of the sub-tasks'
    means. draws: ``draws_for`` without a number.
    Raises ValueError if shapes do not fit.
    """
    sizes = list(parts) or [a.shape[-1]]
    if a.shape != b.shape or sum(sizes) != a.shape[-1] or min(sizes) < 1:
        raise ValueError(f"expected outcomes of {sum(sizes)} documents each, not {a.shape} and {b.shape}")
    rng = np.random.default_rng(seed)
    difference = np.mean(a.astype(float) - b, axis=0)  # (N,)
    by_part = np.split(difference, np.cumsum(sizes)[:-1])
    draws = draws or draws_for(alpha)
    drawn = [_means(part, draws, rng) for part in by_part]
    low, high = np.quantile(np.mean(drawn, axis=0), [alpha / 2, 1 - alpha / 2])
    return Interval(float(np.mean([part.mean() for part in by_part])), float(low), float(high))


def draws_for(alpha: float) -> int:
    """Draws for an interval at 1 - ``alpha``: 1000, or so many that ten are expected beyond each end, up to 10^5."""
    return int(min(max(FEWEST, np.ceil(20 / alpha)), MOST))


def blocks_of(draws: int) -> list[int]:
    """Sizes of the blocks that ``draws`` are made in."""
    return [min(BLOCK, draws - begin) for begin in range(0, draws, BLOCK)]


def _means(values: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Means of so many samples of ``values``, (N,), drawn with replacement: (draws,).

    Of equal values only their number counts, and there are few that differ.
    """
    distinct, counts = np.unique(values, return_counts=True)
    drawn = [rng.multinomial(len(values), counts / len(values), block) @ distinct for block in blocks_of(draws)]
    return np.concatenate(drawn) / len(values)
