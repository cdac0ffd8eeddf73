"""BLEU from what each sentence adds to it, and two pruned models on the same sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.analysis.stats.documents import Interval, blocks_of, draws_for

ORDERS = 4  # n-grams of one to four words


def bleu(statistics: np.ndarray) -> np.ndarray:
    """BLEU, 0 to 1, from ``statistics``, (..., 10), summed over sentences: as sacrebleu computes it by default.

    These are the lengths of translation and reference, then the n-grams of each order that match, then all of them. An
    order without a match counts as half a match, the next such order as a quarter, and so on (``smooth:exp``).

    Source: Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation"; Post 2018.
    """
    length, reference = statistics[..., 0].astype(float), statistics[..., 1].astype(float)
    matches, total = np.split(statistics[..., 2:].astype(float), 2, axis=-1)  # (..., ORDERS) each
    unmatched = matches == 0
    smoothed = np.where(unmatched, 0.5 ** np.cumsum(unmatched, axis=-1), matches)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(smoothed / total).mean(-1))
        brevity = np.exp(np.minimum(0.0, 1 - reference / length))
    some = matches.any(-1) & (total > 0).all(-1)
    return np.where(some, np.where(some, precision, 0.0) * np.where(some, brevity, 0.0), 0.0)


def sentence_bootstrap(
    a: Sequence[np.ndarray], b: Sequence[np.ndarray], alpha: float = 0.05, draws: int | None = None, seed: int = 0
) -> Interval:
    """BLEU of a minus that of b, with a paired percentile interval over sentences.

    ``a``, ``b``: for each seed the statistics of ``bleu``, (random draws, N, 10), of the same N sentences in the same
    order. A sentence is drawn with what it adds in all seeds and random draws, over which the difference is a mean.
    draws: ``draws_for`` without a number. Raises ValueError if numbers of sentences differ.

    Source: Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation".
    """
    sizes = {each.shape[-2] for each in (*a, *b)}
    if len(sizes) != 1:
        raise ValueError(f"expected statistics of the same sentences, not of {sorted(sizes)}")
    size = sizes.pop()
    rng = np.random.default_rng(seed)

    def difference(weights: np.ndarray) -> np.ndarray:
        """Of samples that hold each sentence as often as ``weights``, (draws, N), say: (draws,)."""
        one, other = (np.mean([bleu(weights @ each).mean(0) for each in side], axis=0) for side in (a, b))
        return one - other

    even = np.full(size, 1 / size)
    drawn = [difference(rng.multinomial(size, even, block)) for block in blocks_of(draws or draws_for(alpha))]
    low, high = np.quantile(np.concatenate(drawn), [alpha / 2, 1 - alpha / 2])
    return Interval(float(difference(np.ones((1, size), dtype=int))[0]), float(low), float(high))
