"""Many methods over blocks, after Demšar (2006), "Statistical Comparisons of Classifiers over Multiple Data Sets".

Methods are compared within blocks. A block is a task and model with its seeds averaged (Demšar's use), or a seed of one
task, never a level. Larger values are better; rank 1 is best, and equal values share their mean rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import chi2, norm, rankdata

from bench.analysis.stats.pairs import holm
from bench.analysis.stats.signflip import EXACT, samples_needed, sign_flip_p

DECIMALS = 9  # of values and of differences: what rounding made unlike is a tie


@dataclass(frozen=True)
class Ranking:
    """Mean ranks, the tests, and the groups of methods that these leave together. Indices are columns of the table."""

    ranks: np.ndarray  # (methods,)
    friedman: float  # p-value
    p: np.ndarray  # (methods, methods), Wilcoxon's, adjusted by Holm over all pairs; 1 on the diagonal
    cliques: tuple[tuple[int, ...], ...]  # bars of the diagram, best first
    blocks: int
    needed: int  # blocks with which a pair could reach alpha after Holm


def ranking(table: np.ndarray, alpha: float = 0.05) -> Ranking:
    """Friedman's test on ``table``, (blocks, methods), then Wilcoxon's on each pair with Holm, and the cliques of both.

    Two methods differ if Friedman's test rejects and their adjusted p-value is at most ``alpha``.
    Raises ValueError if a value is missing, or there are fewer than two methods.
    """
    values = _check(table)
    blocks, methods = values.shape
    ranks = mean_ranks(values)
    overall = friedman(values)
    p = pairwise_wilcoxon(values)
    return Ranking(
        ranks=ranks,
        friedman=overall,
        p=p,
        cliques=cliques(ranks, (p <= alpha) & (overall <= alpha)),
        blocks=blocks,
        needed=samples_needed(alpha, methods * (methods - 1) // 2),
    )


def mean_ranks(table: np.ndarray) -> np.ndarray:
    """Mean over blocks of the rank in each, (methods,). Raises ValueError as ``ranking`` does."""
    return rankdata(-_check(table), axis=1).mean(0)


def friedman(table: np.ndarray) -> float:
    """p-value of Friedman's test that all methods rank alike, by chi-square with the correction for ties.

    1 if all methods tie in every block. ``scipy.stats.friedmanchisquare`` gives the same, but refuses two methods and
    is NaN for ties alone. Raises ValueError as ``ranking`` does.
    """
    ranks = rankdata(_check(table), axis=1)
    blocks, methods = ranks.shape
    spread = np.sum((ranks - (methods + 1) / 2) ** 2)  # within blocks; ties make it smaller
    if not spread:
        return 1.0
    between = np.sum((ranks.sum(0) - blocks * (methods + 1) / 2) ** 2)
    return float(chi2.sf((methods - 1) * between / spread, methods - 1))


def wilcoxon(differences: np.ndarray) -> float:
    """Two-sided p-value of the signed-rank test (Wilcoxon 1945) on ``differences``, (n,).

    Zeros are dropped, and equal sizes share their mean rank. Exact given the ties up to 20 differences, of which all
    signs are enumerated; beyond, by the normal approximation, as random signs (``signflip``) are slow for each of
    many pairs and give no p-value small enough to be divided among these. 1 where all differences are 0.
    """
    d = np.round(differences, DECIMALS)
    d = d[d != 0]
    if not len(d):
        return 1.0
    ranks = np.sign(d) * rankdata(np.abs(d))
    if len(d) <= EXACT:
        return sign_flip_p(ranks)
    return float(2 * norm.sf(abs(ranks.sum()) / np.sqrt(np.sum(ranks**2))))


def pairwise_wilcoxon(table: np.ndarray) -> np.ndarray:
    """``wilcoxon`` of each pair of columns of ``table``, (blocks, methods), adjusted by Holm: (methods, methods)."""
    values = _check(table)
    adjusted = np.ones((values.shape[1], values.shape[1]))
    first, second = np.array(list(combinations(range(values.shape[1]), 2))).T
    p = holm([wilcoxon(values[:, i] - values[:, j]) for i, j in zip(first, second, strict=True)])
    adjusted[first, second] = adjusted[second, first] = p
    return adjusted


def cliques(ranks: np.ndarray, different: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Largest runs of methods, in the order of their mean ``ranks``, (methods,), no two of which are ``different``.

    ``different``: (methods, methods) bool, symmetric. Each method is in one at least; runs overlap.
    """
    order = np.argsort(ranks, kind="stable")
    runs: list[tuple[int, ...]] = []
    end = 0
    for start in range(len(order)):
        before = end
        while end < len(order) and not different[order[end], order[start:end]].any():
            end += 1
        if end > before:  # else the run lies within the last one
            runs.append(tuple(int(index) for index in order[start:end]))
    return tuple(runs)


def _check(table: np.ndarray) -> np.ndarray:
    values = np.asarray(table, dtype=float)
    if values.ndim != 2 or not len(values) or values.shape[1] < 2:
        raise ValueError(f"expected (blocks, methods) of two methods or more, not {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("a value is missing: leave out, by name, the methods or blocks that lack one")
    return np.round(values, DECIMALS)
