"""Tiers of methods that are practically equal: a ranking that claims no more than the seeds show.

The method with the best mean heads the first tier. A method is below it where it has been shown to keep less than the
head by more than a margin; the others stand in the head's tier, whatever lies between their means. The best method
below heads the next tier, and so on. So of every method it holds that it was shown to be worse, by more than the
margin, than the head of each tier above its own. Within a tier a method cannot be told from its head, or differs from
it by less than the margin; two members that are not the head are not compared, so no chain of near ties is ever formed.

"Shown" means: at the level alpha for all ordered pairs of methods together, as the head was picked by its mean. Each
pair's differences are tested by flipping signs, of all pairs at once seed by seed, against the largest statistic among
the pairs left (step-down max-T: Westfall & Young 1993; Romano & Wolf 2005). This keeps the dependence between pairs, so
ten seeds can do for twenty methods, where Holm over 190 pairs would ask for thirteen before anything could be shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from bench.analysis.stats.signflip import ROUNDING, samples_needed

EXACT = 12  # seeds; beyond, 2^12 random flips (the identity among them) stand for all


@dataclass(frozen=True)
class Tiers:
    """Tiers, best first; in each the indices of its methods, best mean first."""

    members: tuple[tuple[int, ...], ...]
    p: np.ndarray  # (methods i, methods j): that i keeps no more than ``margin`` more than j; 1 on the diagonal
    seeds: int
    needed: int  # seeds below which everything is one tier


def tiers(table: np.ndarray, margin: float, alpha: float = 0.05, seed: int = 0) -> Tiers:
    """Tiers of the columns of ``table``, (seeds, methods), larger is better, ``margin`` in its unit and at least 0.

    Equal means keep the order of the columns. Raises ValueError if a value is missing.
    """
    values = np.asarray(table, dtype=float)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all() or margin < 0:
        raise ValueError(
            f"expected (seeds, methods) without gaps and a margin of at least 0, not {values.shape}, {margin}"
        )
    p = shown_better(values, margin, seed)
    left = np.argsort(-values.mean(0), kind="stable").tolist()
    members = []
    while left:
        head = left[0]
        members.append(tuple(index for index in left if p[head, index] > alpha))
        left = [index for index in left if p[head, index] <= alpha]
    return Tiers(tuple(members), p, len(values), samples_needed(alpha))


def shown_better(table: np.ndarray, margin: float, seed: int = 0) -> np.ndarray:
    """p-values of "i keeps at most ``margin`` more than j", for all ordered pairs together: (methods i, methods j).

    Of a pair the statistic is the sum over seeds of d = x_i - x_j - margin over the root of the sum of d², which no
    flip of signs changes. Step-down: a pair is compared with the largest among the pairs whose statistic is no larger.
    """
    methods = table.shape[1]
    p = np.ones((methods, methods))
    pairs = np.array(list(permutations(range(methods), 2)))  # (P, 2)
    if not len(pairs):
        return p
    d = table[:, pairs[:, 0]] - table[:, pairs[:, 1]] - margin  # (n, P)
    size = np.sqrt((d**2).sum(0))
    scaled = np.divide(d, size, out=np.zeros_like(d), where=size > 0)
    order = np.argsort(-scaled.sum(0), kind="stable")  # largest first
    scaled = scaled[:, order]
    flipped = _flips(len(d), seed) @ scaled  # (flips, P); the identity is the first
    largest = np.maximum.accumulate(flipped[:, ::-1], axis=1)[:, ::-1]  # of this pair and those after it
    stepped = np.maximum.accumulate((largest >= flipped[0] - ROUNDING).mean(0))
    p[pairs[order, 0], pairs[order, 1]] = stepped
    return p


def _flips(n: int, seed: int) -> np.ndarray:
    """Signs, (flips, n), all of them or 2^12 random ones; the first row changes none."""
    if n <= EXACT:
        return 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    signs = 1.0 - 2.0 * np.random.default_rng(seed).integers(0, 2, size=(2**EXACT, n))
    signs[0] = 1
    return signs
