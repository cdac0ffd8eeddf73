"""BLEU from statistics of sentences is sacrebleu's, and the bootstrap redraws sentences, not scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from bench.analysis.stats.corpus import bleu, sentence_bootstrap

WORDS = st.lists(st.sampled_from("abcd"), max_size=7).map(" ".join)
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6)


def statistics(pairs) -> np.ndarray:
    """(N, 10)"""
    return np.array(BLEU()._extract_corpus_statistics([one for one, _ in pairs], [[other for _, other in pairs]]))


@given(PAIRS)
def test_bleu_is_that_of_sacrebleu(pairs):
    expected = BLEU().corpus_score([one for one, _ in pairs], [[other for _, other in pairs]]).score / 100
    assert bleu(statistics(pairs).sum(0)) == pytest.approx(expected, abs=1e-12)


def test_many_at_once_as_one_by_one():
    rng = np.random.default_rng(0)
    several = np.stack([statistics([("a b c d e f"[: rng.integers(1, 12)], "a b c d f e")]).sum(0) for _ in range(9)])
    assert bleu(several.reshape(3, 3, 10)).tolist() == np.array([bleu(each) for each in several]).reshape(3, 3).tolist()


def sentences(seed: int, wrong: float, size: int = 60) -> np.ndarray:
    """Statistics of sentences of eight words, of which a share is wrong: (1, N, 10)."""
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(size):
        words = [str(word) for word in rng.integers(0, 50, 8)]
        given = ["x" if rng.random() < wrong else word for word in words]
        pairs.append((" ".join(given), " ".join(words)))
    return statistics(pairs)[None]


def test_the_interval_holds_the_difference_and_excludes_none_where_there_is_one():
    good, bad = [sentences(0, 0.1), sentences(1, 0.1)], [sentences(0, 0.3), sentences(1, 0.3)]
    found = sentence_bootstrap(good, bad)
    expected = np.mean([bleu(one.sum(1)) - bleu(other.sum(1)) for one, other in zip(good, bad, strict=True)])
    assert found.mean == pytest.approx(expected)
    assert 0 < found.low < found.mean < found.high
    same = sentence_bootstrap(good, good)
    assert same.low == same.mean == same.high == 0


def test_redrawing_sentences_one_by_one_gives_the_same_interval():
    a, b = [np.concatenate([sentences(0, 0.1), sentences(2, 0.2)])], [sentences(3, 0.2)]  # two random draws of one
    size, rng = a[0].shape[1], np.random.default_rng(5)
    drawn = []
    for weights in rng.multinomial(size, np.full(size, 1 / size), 200):
        rows = np.repeat(np.arange(size), weights)
        mean = np.mean([bleu(draw[rows].sum(0)) for draw in a[0]])
        drawn.append(mean - bleu(b[0][0][rows].sum(0)))
    found = sentence_bootstrap(a, b, draws=200, seed=5)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))


def test_a_high_level_takes_more_draws():
    a, b = [sentences(0, 0.1, size=20)], [sentences(3, 0.2, size=20)]
    found = sentence_bootstrap(a, b, alpha=1 / 500)
    assert found == sentence_bootstrap(a, b, alpha=1 / 500, draws=10_000)
    assert found != sentence_bootstrap(a, b, alpha=1 / 500, draws=1000)
    assert sentence_bootstrap(a, b) == sentence_bootstrap(a, b, draws=1000)


def test_other_sentences_are_refused():
    with pytest.raises(ValueError, match="the same sentences"):
        sentence_bootstrap([sentences(0, 0.1)], [sentences(0, 0.1, size=50)])
