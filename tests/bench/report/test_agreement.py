"""Agreement of methods' removal orders, against loops over pairs of methods, seeds, draws and heads."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from bench.report.agreement import agreement, order_by_similarity, pairs
from bench.report.board import read


def slow(board, task, one: str, other: str) -> tuple[float, float]:
    """Mean tau and share of the first half in common, over seeds that both have and over their draws."""
    taus, shares = [], []
    for a in board.of(task, one):
        for b in board.of(task, other):
            if a.cell.seed == b.cell.seed:
                both = [(x, y) for x in a.result.orders for y in b.result.orders]
                half = a.result.units // 2
                taus.append(np.mean([kendalltau(np.argsort(x), np.argsort(y)).statistic for x, y in both]))
                shares.append(np.mean([len(set(x[:half]) & set(y[:half])) / half for x, y in both]))
    return float(np.mean(taus)), float(np.mean(shares))


def test_each_two_methods_agree_as_far_as_a_loop_says(run, write):
    run(seeds=3, data=("alpha",))
    board = read(write("taylor", 55, 2, "alpha"))  # one seed in common with the others
    task = board.tasks[0]
    found = agreement(board, task)
    assert found is not None and found.first == 4 and found.expected == 0.5
    assert set(found.labels) | set(found.unordered) == set(board.labels) and found.unordered == ("none", "voita")
    assert {"random", "taylor", "michel"} < set(found.labels)  # of several draws, of other seeds, of one draw
    for i, j in combinations(range(len(found.labels)), 2):
        tau, shared = slow(board, task, found.labels[i], found.labels[j])
        assert found.tau[i, j] == found.tau[j, i] == pytest.approx(tau)
        assert found.shared[i, j] == found.shared[j, i] == pytest.approx(shared)
    assert np.isnan(np.diag(found.tau)).all()
    table = pairs(board, task, found)
    assert len(table.rows) == len(found.labels) * (len(found.labels) - 1) // 2
    taus = [row[1].value for row in table.rows]
    assert taus == sorted(taus, reverse=True)
    one, other = str(table.rows[0][0].value).split(", ")
    assert (taus[0], table.rows[0][2].value) == pytest.approx(slow(board, task, one, other))


def test_methods_without_a_seed_in_common_have_no_figure(write):
    write("michel", 80, 0)
    write("ae", 60, 0)
    board = read(write("taylor", 55, 1))
    found = agreement(board, board.tasks[0])
    assert found is not None
    place = found.labels.index("taylor")
    assert np.isnan(found.tau[place]).all() and np.isfinite(found.tau).sum() == 2
    assert [row[1].shown for row in pairs(board, board.tasks[0], found).rows][1:] == ["–", "–"]


def test_one_method_with_orders_agrees_with_nothing(run):
    board = read(run(seeds=1, labels=("michel", "voita", "none"), data=("alpha",)))
    assert agreement(board, board.tasks[0]) is None


@given(st.lists(st.integers(2, 4), min_size=2, max_size=4), st.randoms())
def test_like_methods_stand_together(sizes, random):
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    random.shuffle(groups)
    same = np.equal.outer(groups, groups)
    ordered = [groups[place] for place in order_by_similarity(np.where(same, 0.9, 0.1))]
    assert sorted(ordered) == sorted(groups)
    assert sum(one != other for one, other in pairwise(ordered)) == len(sizes) - 1
