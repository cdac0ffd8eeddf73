"""Many methods against scipy, statsmodels and scikit-posthocs."""

from __future__ import annotations

from itertools import combinations
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import scikit_posthocs as posthocs
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from statsmodels.stats.multitest import multipletests

from bench.analysis.stats.many import cliques, friedman, mean_ranks, pairwise_wilcoxon, ranking, wilcoxon
from bench.analysis.stats.signflip import EXACT

tenths = st.integers(0, 9).map(lambda value: value / 10)
tables = arrays(float, st.tuples(st.integers(1, 6), st.integers(3, 5)), elements=tenths)


@given(tables)
def test_friedman_is_that_of_scipy(table):
    assume(any(len(set(block)) > 1 for block in table))
    assert friedman(table) == pytest.approx(stats.friedmanchisquare(*table.T).pvalue)


@pytest.mark.parametrize("shape", [(5, 3), (1, 2)])
def test_where_all_are_equal_nothing_differs(shape):
    got = ranking(np.full(shape, 0.5))
    assert got.friedman == 1 and (got.p == 1).all() and got.cliques == (tuple(range(shape[1])),)
    assert got.ranks == pytest.approx((shape[1] + 1) / 2)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=9, unique=True).flatmap(
        lambda sizes: st.tuples(*[st.sampled_from([size / 7, -size / 7]) for size in sizes])
    )
)
def test_wilcoxon_without_ties_is_scipys_exact_one(d):
    assert wilcoxon(np.array(d)) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8).map(np.array))
def test_wilcoxon_with_ties_and_zeros_is_scipys_permutation(d):
    kept = d[d != 0]
    want = stats.wilcoxon(kept, method=stats.PermutationMethod(n_resamples=np.inf)).pvalue if len(kept) > 1 else 1.0
    assert wilcoxon(d) == pytest.approx(want)


@given(arrays(float, st.integers(60, 90), elements=tenths.map(lambda value: value - 0.4)))
def test_wilcoxon_of_many_differences_is_scipys_normal_approximation(d):
    d = np.round(d, 1)  # equal sizes are equal for scipy, too
    assume(np.count_nonzero(d) > EXACT)
    want = stats.wilcoxon(d[d != 0], method="asymptotic", correction=False).pvalue
    assert wilcoxon(d) == pytest.approx(want)


@given(arrays(int, st.tuples(st.integers(1, 8), st.integers(2, 4)), elements=st.integers(40, 60)))
def test_ranks_and_p_values_of_hundredths_are_those_of_whole_numbers(counts):
    """0.57 - 0.56 and 0.58 - 0.57 are equal differences, and unequal floats."""
    found, expected = ranking(counts / 100), ranking(counts)
    assert (found.ranks == expected.ranks).all() and (found.p == expected.p).all()
    assert found.friedman == expected.friedman
    one, other = counts[:, 0] / 100, counts[:, 1] / 100
    assert wilcoxon(one - other) == wilcoxon(counts[:, 0] - counts[:, 1])
    drifted = counts / 100 + np.arange(counts.shape[1]) * 1e-16
    assert (mean_ranks(drifted) == expected.ranks).all()


@given(tables)
def test_pairs_are_corrected_together(table):
    got = pairwise_wilcoxon(table)
    pairs = list(combinations(range(table.shape[1]), 2))
    alone = [wilcoxon(table[:, i] - table[:, j]) for i, j in pairs]
    with patch("gc.collect"):  # which statsmodels calls each time
        want = multipletests(alone, method="holm")[1]
    assert [got[i, j] for i, j in pairs] == pytest.approx(want)
    assert (got == got.T).all() and (np.diag(got) == 1).all()


def test_pairs_without_ties_are_those_of_scikit_posthocs():
    table = np.random.default_rng(0).normal(size=(9, 4)) + np.arange(4)
    long = pd.DataFrame(table).melt(var_name="method", value_name="value")
    want = posthocs.posthoc_wilcoxon(long, val_col="value", group_col="method", p_adjust="holm")
    assert pairwise_wilcoxon(table) == pytest.approx(want.to_numpy())


@given(st.integers(1, 6).flatmap(lambda n: st.tuples(st.permutations(range(n)), arrays(bool, (n, n)))))
def test_cliques_are_the_largest_runs_without_a_difference(drawn):
    ranks, some = np.array(drawn[0], dtype=float), np.triu(drawn[1], 1)
    different = some | some.T
    order = np.argsort(ranks)
    runs = [order[i:j] for i in range(len(order)) for j in range(i + 1, len(order) + 1)]
    alike = [set(run.tolist()) for run in runs if not different[np.ix_(run, run)].any()]
    largest = [run for run in alike if not any(run < other for other in alike)]
    got = cliques(ranks, different)
    assert [set(run) for run in got] == largest  # in the order of their best methods
    assert all(list(run) == sorted(run, key=lambda index: ranks[index]) for run in got)


def test_clear_differences_are_found_and_near_ones_stay_together():
    rng = np.random.default_rng(0)
    table = rng.normal(scale=0.1, size=(12, 4)) + np.array([3, 2, 2, 1])
    got = ranking(table)
    assert got.friedman < 0.001 and got.cliques == ((0,), tuple(sorted((1, 2), key=lambda i: got.ranks[i])), (3,))
    assert (got.blocks, got.needed) == (12, 8)


def test_too_few_blocks_leave_all_together():
    got = ranking(np.random.default_rng(0).normal(size=(3, 5)) + 10 * np.arange(5))
    assert got.friedman < 0.05 and len(got.cliques) == 1  # no pair can go below 2 / 2^3
    assert got.needed == 9


@pytest.mark.parametrize("table", [np.array([[0.1, np.nan]]), np.zeros((3, 1)), np.zeros((0, 3)), np.zeros(3)])
def test_gaps_are_refused(table):
    for function in (ranking, friedman, pairwise_wilcoxon):
        with pytest.raises(ValueError, match=r"missing|expected"):
            function(table)


def test_methods_differ_only_where_the_test_of_all_rejects():
    """Wilcoxon's test of the first two alone would part them."""
    table = np.random.default_rng(0).normal(size=(14, 8))
    table[:, 1] = table[:, 0] + 1e-3
    found = ranking(table)
    assert found.friedman > 0.05 > found.p[0, 1] and len(found.cliques) == 1
