"""Tiers of methods that are practically equal: a ranking that claims no more than the seeds show.

The method with the best mean heads the first tier. A method is below it where it has been shown to keep less than the
head by more than a margin; the others stand in the head's tier, whatever lies between their means. The best method
below heads the next tier, and so on. So of every method it holds that it was shown to be worse, by more than the
margin, than the head of each tier above its own. Within a tier a method was not shown to be so much worse than its
head, and may yet differ from it where the two are compared by themselves; two members that are not the head are not
compared, so no chain of near ties is ever formed.

"Shown" means: at the level alpha for all ordered pairs of methods together, as the head was picked by its mean. Each
pair's differences are tested by flipping signs against the largest statistic among the pairs left (step-down max-T:
Westfall & Young 1993; Romano & Wolf 2005). A flip turns all pairs at once, in one seed of one task. This keeps the
dependence between pairs, so ten differences can do for twenty methods, where Holm over 190 pairs would ask for thirteen
before anything could be shown. Seeds of different tasks are independent, and flipped by themselves
(``bench.analysis.stats.pairs``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from bench.analysis.stats.across import Scores, check_scores, task_means
from bench.analysis.stats.pairs import task_weights
from bench.analysis.stats.signflip import ROUNDING, samples_needed

ALWAYS_EXACT = 12  # differences up to which all flips are made
EXACT = 18  # differences up to which they are where pairs are so few that it is soon done
RANDOM = 2**12  # flips, the identity among them, that stand for all others
AT_ONCE = 2**22  # statistics, of a flip and a pair each, that are in memory at once


@dataclass(frozen=True)
class Tiers:
    """Tiers, best first; in each the indices of its methods, best mean first."""

    members: tuple[tuple[int, ...], ...]
    p: np.ndarray  # (methods i, methods j): that i keeps no more than ``margin`` more than j; 1 on the diagonal
    seeds: tuple[int, ...]  # of each task
    needed: int  # seeds of all tasks together below which everything is one tier


def tiers(scores: Scores, margin: float, alpha: float = 0.05, seed: int = 0) -> Tiers:
    """Tiers of methods by ``scores``, for each task (methods, seeds), larger is better.

    They are compared by the mean over tasks of the mean over seeds. margin: in the unit of the scores, at least 0.
    Equal means keep the order of the methods. Raises ValueError if a value is missing, or tasks differ in their
    methods.
    """
    check_scores(scores)
    if margin < 0:
        raise ValueError(f"expected a margin of at least 0, not {margin}")
    p = shown_better(scores, margin, seed)
    seeds, needed = tuple(task.shape[1] for task in scores), samples_needed(alpha)
    if sum(seeds) < needed:  # where tasks differ in their seeds, fewer flips may be as large
        p = np.ones_like(p)
    left = np.argsort(-task_means(scores).mean(-1), kind="stable").tolist()
    members = []
    while left:
        head = left[0]
        members.append(tuple(index for index in left if p[head, index] > alpha))
        left = [index for index in left if p[head, index] <= alpha]
    return Tiers(tuple(members), p, seeds, needed)


def shown_better(scores: Scores, margin: float, seed: int = 0) -> np.ndarray:
    """p-values of "i keeps at most ``margin`` more than j", for all ordered pairs together: (methods i, methods j).

    Of a pair the statistic is the sum of d = w (x_i - x_j - margin) over the root of the sum of d², which no flip of
    signs changes; w makes it the mean over tasks of the mean over seeds. Step-down: a pair is compared with the largest
    among the pairs whose statistic is no larger.
    """
    table, weights = np.concatenate(scores, 1).T, task_weights([task.shape[1] for task in scores])  # (n, methods)
    methods = table.shape[1]
    p = np.ones((methods, methods))
    pairs = np.array(list(permutations(range(methods), 2)))  # (P, 2)
    if not len(pairs):
        return p
    d = weights[:, None] * (table[:, pairs[:, 0]] - table[:, pairs[:, 1]] - margin)  # (n, P)
    size = np.sqrt((d**2).sum(0))
    scaled = np.divide(d, size, out=np.zeros_like(d), where=size > 0)
    order = np.argsort(-scaled.sum(0), kind="stable")  # largest first
    scaled = scaled[:, order]
    observed, flips = scaled.sum(0), _flips(len(d), len(pairs), seed)
    as_large = np.zeros(len(pairs), int)
    rows = max(1, AT_ONCE // len(pairs))
    for start in range(0, len(flips), rows):
        flipped = flips[start : start + rows] @ scaled  # (rows, P)
        largest = np.maximum.accumulate(flipped[:, ::-1], axis=1)[:, ::-1]  # of this pair and those after it
        as_large += (largest >= observed - ROUNDING).sum(0)
    p[pairs[order, 0], pairs[order, 1]] = np.maximum.accumulate(as_large / len(flips))
    return p


def _flips(n: int, pairs: int, seed: int) -> np.ndarray:
    """Signs, (flips, n), all of them or random ones; the first row changes none."""
    if n <= ALWAYS_EXACT or (n <= EXACT and 2**n * pairs <= AT_ONCE):
        return 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    signs = 1.0 - 2.0 * np.random.default_rng(seed).integers(0, 2, size=(RANDOM, n))
    signs[0] = 1
    return signs
