"""Sets of heads under a layer's Fisher matrix: swapped as by trying every swap, in one pass for all budgets."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.cost import counting
from methods import METHODS
from methods.contract.choosing import select
from methods.fisher import fisher
from methods.fisher_rearranged import fisher_matrices, fisher_rearranged, rearranged
from tests.fixtures.slow import slow_cases
from tests.methods.slopes import slopes


def cost(matrix, removed) -> float:
    return sum(matrix[i, j].item() for i in removed for j in removed)


def slow_swaps(matrix, removed: set[int]) -> set[int]:
    """Try every swap, make the best, and begin again."""
    units = range(len(matrix))
    while True:
        tried = [removed - {i} | {j} for i in removed for j in units if j not in removed]
        best = min(tried, key=lambda each: cost(matrix, each), default=removed)
        if cost(matrix, best) >= cost(matrix, removed) - 1e-12 * matrix.trace().item():
            return removed
        removed = best


@st.composite
def problems(draw):
    units, examples = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    gradients = torch.randn(units, examples, dtype=torch.float64, generator=generator)
    removed = torch.zeros(units, dtype=torch.bool)
    removed[torch.randperm(units, generator=generator)[: draw(st.integers(0, units))]] = True
    return gradients @ gradients.T / examples, removed


@given(problems())
def test_swaps_are_those_of_trying_every_swap(problem):
    matrix, removed = problem
    found = rearranged(matrix, removed)
    slow = slow_swaps(matrix, set(removed.nonzero().flatten().tolist()))
    assert found.sum() == removed.sum()
    assert cost(matrix, found.nonzero().flatten().tolist()) == pytest.approx(cost(matrix, slow), abs=1e-9)


def test_two_heads_that_make_up_for_each_other_go_together():
    matrix = torch.tensor([[4.0, 0.0, 0.0], [0.0, 5.0, -4.9], [0.0, -4.9, 5.0]], dtype=torch.float64)
    by_diagonal = torch.tensor([True, True, False])
    best = min(combinations(range(3), 2), key=lambda pair: cost(matrix, pair))
    assert rearranged(matrix, by_diagonal).nonzero().flatten().tolist() == list(best) == [1, 2]


@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
def test_matrices_are_products_of_slopes(tiny, architecture, seed):
    model, sentences = tiny.model(architecture, seed, torch.float64), tiny.sentences(seed, count=5)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=seed), tiny.batch(sentences[3:], second)]
    view = tiny.view(model, batches, tiny.unit(architecture))
    expected = torch.zeros(len(view.heads), len(view.heads), dtype=torch.float64)
    for text in tiny.alone(sentences):
        found = slopes(view, text).tolist()
        for i, first_slope in enumerate(found):
            for j, second_slope in enumerate(found):
                expected[i, j] += first_slope * second_slope / len(sentences)
    found = torch.block_diag(*fisher_matrices(view))
    blocks = view.heads.site_of_unit[:, None] == view.heads.site_of_unit
    torch.testing.assert_close(found[blocks], expected[blocks], rtol=1e-4, atol=1e-9)
    torch.testing.assert_close(found.diagonal(), fisher(view) ** 2)


def test_layers_keep_as_many_as_by_the_diagonal(tiny):
    view = tiny.view(tiny.model("bert", layers=3), [tiny.batch(tiny.sentences(0))])
    for keep in range(len(view.heads) + 1):
        by_diagonal = fisher(view).argsort(descending=True, stable=True)[:keep]
        expected = torch.bincount(view.heads.site_of_unit[by_diagonal], minlength=3)
        kept = fisher_rearranged(view, keep)
        assert torch.equal(torch.bincount(view.heads.site_of_unit[kept], minlength=3), expected)


def test_all_budgets_take_one_pass(tiny):
    model = tiny.model("bert")
    view = tiny.view(model, [tiny.batch(tiny.sentences(0, count=6))])
    with counting(model) as passes:
        select(METHODS["fisher-rearranged"], {}, view, [0, 2, 4, 8])
    assert (passes.forward, passes.backward) == (6, 6)
