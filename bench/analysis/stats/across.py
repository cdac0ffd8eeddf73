"""Methods across tasks, after Agarwal et al. (2021), "Deep RL at the Edge of the Statistical Precipice", NeurIPS.

``scores`` has one array per task and model, (methods, seeds), of normalised quality. The methods are the same in all of
them, the seeds of a task are the same for all methods (they are resampled together), and all tasks have the same
weight, however many seeds they have. ``counts`` has one array per task, (..., seeds): how often each seed counts in a
bootstrap draw; once each without. Its leading axes are draws: every statistic takes them all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import norm, t

Scores = Sequence[np.ndarray]
Counts = Sequence[np.ndarray]
DRAWS = 10_000  # of a bootstrap: with a thousand the ends of a 99 % interval would be the 5th number from the end
TOGETHER = 2**22  # numbers that a statistic may need for the bootstrap draws it takes at once
FEWEST = 5  # seeds to draw from: with three, a 95 % interval misses in 24 of 100 cases


@dataclass(frozen=True)
class Estimate:
    """A statistic, of any shape, and the ends of its interval, of the same shape; None with too few samples."""

    value: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None


def normalise(quality: np.ndarray, chance: np.ndarray | float, unpruned: np.ndarray | float) -> np.ndarray:
    """Quality with chance at 0 and the unpruned model at 1, in the shape to which the three broadcast.

    NaN where the unpruned model is no better than chance.
    """
    span = np.asarray(unpruned, dtype=float) - chance
    return np.divide(quality - np.asarray(chance), span, out=np.full(np.shape(quality - span), np.nan), where=span > 0)


def task_means(scores: Scores, counts: Counts | None = None) -> np.ndarray:
    """Means over seeds, (..., methods, tasks)."""
    means = [
        of_seeds @ task.T / of_seeds.sum(-1, keepdims=True)
        for task, of_seeds in zip(scores, counts or _once(scores), strict=True)
    ]
    return np.stack(means, -1)


def mean_of_tasks(scores: Scores, counts: Counts | None = None) -> np.ndarray:
    """Mean over tasks, seeds averaged first: (..., methods)."""
    return task_means(scores, counts).mean(-1)


def interquartile_mean(means: np.ndarray) -> np.ndarray:
    """Mean of the middle half of the tasks, (..., tasks) -> (...): a quarter, rounded down, goes at either end.

    Agarwal et al. pool the runs of all tasks; here seeds are averaged first (``task_means``), so that a spread over
    seeds moves the interval, not the choice of tasks. Below four tasks it is the mean.
    """
    cut = means.shape[-1] // 4
    return np.sort(means, -1)[..., cut : means.shape[-1] - cut].mean(-1)


def iqm(scores: Scores, counts: Counts | None = None) -> np.ndarray:
    """Interquartile mean over tasks, seeds averaged first: (..., methods)."""
    return interquartile_mean(task_means(scores, counts))


def performance_profile(scores: Scores, thresholds: np.ndarray) -> np.ndarray:
    """Share of runs that score above each of ``thresholds``, averaged over tasks (their Sec. 4.2).

    Returns (methods, thresholds).
    """
    return np.mean([(task[:, None, :] > thresholds[:, None]).mean(-1) for task in scores], axis=0)


def improvement_over(scores: Scores, counts: Counts | None, j: int) -> np.ndarray:
    """Probability that a run of each method scores above one of the method with index ``j``: (..., methods).

    On each task the Mann-Whitney statistic, ties counted half, over the product of the numbers of runs; then the mean
    (their Sec. 4.3).
    """
    by_task = []
    for task, of_seeds in zip(scores, counts or _once(scores), strict=True):
        own, other = task[:, :, None], task[j]
        above = ((own > other).astype(float) + (own >= other)) / 2  # (methods, seeds, seeds of j)
        against = np.tensordot(of_seeds, above, axes=(-1, 2))  # (..., methods, seeds)
        by_task.append((against * of_seeds[..., None, :]).sum(-1) / of_seeds.sum(-1, keepdims=True) ** 2)
    return np.mean(by_task, axis=0)


def seed_bootstrap(
    statistic: Callable[[Scores, Counts], np.ndarray],
    scores: Scores,
    alpha: float = 0.05,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """``statistic`` with a bootstrap interval stratified by task: seeds are drawn anew within each, all methods alike.

    Of n seeds n - 1 are drawn, which gives the mean of a task the variance s²/n and not (n - 1)/n of it (McCarthy &
    Snowden 1985; Rao & Wu 1988), and the percentiles are taken further out, at Φ(t), as Student's t asks for with so
    many seeds as the task with the fewest has (Hesterberg 2015, "expanded percentile interval"; one task may have most
    of the spread, so seeds of the others do not help). No interval if a task has fewer than five seeds. Of one task
    with so few seeds that there are no more than ``draws`` different draws, each is taken once.
    Raises ValueError if a score is missing, or tasks differ in their methods.
    """
    check_scores(scores)
    value = statistic(scores, _once(scores))
    fewest = min(task.shape[-1] for task in scores)
    if fewest < FEWEST:
        return Estimate(value, None, None)
    if len(scores) == 1 and fewest ** (fewest - 1) <= draws:
        counts = [_counts(np.array(list(product(range(fewest), repeat=fewest - 1))), fewest)]
    else:
        rng = np.random.default_rng(seed)
        sizes = [task.shape[1] for task in scores]
        counts = [_counts(rng.integers(seeds, size=(draws, seeds - 1)), seeds) for seeds in sizes]
    step = max(1, TOGETHER // sum(task.size for task in scores))
    drawn = [
        statistic(scores, [of_task[start : start + step] for of_task in counts])
        for start in range(0, len(counts[0]), step)
    ]
    return _estimate(value, np.concatenate(drawn), fewest - 1, alpha)


def _once(scores: Scores) -> Counts:
    """Each seed once."""
    return [np.ones(task.shape[-1]) for task in scores]


def _counts(drawn: np.ndarray, seeds: int) -> np.ndarray:
    """How often each of ``seeds`` is in each row of ``drawn``, (draws, n): (draws, seeds)."""
    places = drawn + seeds * np.arange(len(drawn))[:, None]
    return np.bincount(places.ravel(), minlength=seeds * len(drawn)).reshape(-1, seeds).astype(float)


def _estimate(value: np.ndarray, drawn: np.ndarray, freedom: int, alpha: float) -> Estimate:
    tail = norm.cdf(t.ppf(alpha / 2, freedom))
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return Estimate(value, low, high)


def check_scores(scores: Scores) -> None:
    """Raise ValueError if a score is missing, or tasks differ in their methods."""
    if not len(scores) or len({task.shape[0] for task in scores}) > 1 or any(task.ndim != 2 for task in scores):
        raise ValueError(f"expected (methods, seeds) for each task, not {[task.shape for task in scores]}")
    if not all(task.size and np.isfinite(task).all() for task in scores):
        raise ValueError("a score is missing: leave out, by name, the methods or seeds that some task lacks")
