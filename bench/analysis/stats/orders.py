"""How much two removal orders agree, and how much a method agrees with itself from seed to seed."""

from __future__ import annotations

import numpy as np


def kendall_tau(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Kendall's rank correlation (1938) of each order of ``a``, (A, units), with each of ``b``, (B, units): (A, B).

    1 is the same order, -1 the reverse, 0 what unrelated orders give on average; NaN with a single unit. Orders have no
    ties. Raises ValueError if the units are not the same.
    """
    before_a, before_b = pair_signs(a), pair_signs(b)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"expected orders of the same units, not of {a.shape[1]} and {b.shape[1]}")
    pairs = before_a.shape[1]
    return before_a @ before_b.T / pairs if pairs else np.full((len(a), len(b)), np.nan)


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's tau-b (1945) of two scores, (n,) each, of the same n things: tau of their orders, corrected for ties.

    NaN if all values of one are equal. (The same as ``scipy.stats.kendalltau``, which takes a second to import.)
    """
    first, second = np.triu_indices(len(x), 1)
    signs_x, signs_y = np.sign(x[first] - x[second]), np.sign(y[first] - y[second])
    pairs = np.sqrt(np.abs(signs_x).sum() * np.abs(signs_y).sum())  # that are not tied
    return float(signs_x @ signs_y / pairs) if pairs else float("nan")


def overlap(a: np.ndarray, b: np.ndarray, k: int) -> np.ndarray:
    """Share of the ``k`` units removed first that two orders have in common, (A, units) and (B, units) -> (A, B).

    Unrelated orders share k / units on average. Raises ValueError if k is not from 1 to the number of units.
    """
    units = a.shape[1]
    if not 1 <= k <= units or b.shape[1] != units:
        raise ValueError(f"expected k from 1 to {units} and orders of as many units, not {k} and {b.shape[1]}")
    return removed_first(a, k) @ removed_first(b, k).T / k


def stability(orders: np.ndarray) -> float:
    """Mean Kendall's tau of a method's orders, (seeds, draws, units), over all pairs of different seeds.

    Another seed is another trained model and another calibration sample. NaN with one seed.
    """
    seeds, draws, units = orders.shape
    tau = kendall_tau(orders.reshape(-1, units), orders.reshape(-1, units)).reshape(seeds, draws, seeds, draws)
    return float(tau.mean((1, 3))[~np.eye(seeds, dtype=bool)].mean()) if seeds > 1 else float("nan")


def pair_signs(orders: np.ndarray) -> np.ndarray:
    """For each pair of units i < j, 1.0 where i is removed before j and -1.0 where after: (orders, pairs)."""
    position = np.argsort(orders, axis=1)
    first, second = np.triu_indices(orders.shape[1], 1)
    return np.sign(position[:, second] - position[:, first]).astype(float)


def removed_first(orders: np.ndarray, k: int) -> np.ndarray:
    """Which units are among the ``k`` removed first, (orders, units), as 0.0 and 1.0."""
    return (np.argsort(orders, axis=1) < k).astype(float)
