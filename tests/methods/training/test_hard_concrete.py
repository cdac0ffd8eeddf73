"""The hard concrete distribution: its closed forms against many samples."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from methods.training import hard_concrete as hc

LOG_A = [-6.0, -2.0, -0.5, 0.0, 0.7, 2.5, 6.0]
DRAWS = 100_000  # the standard deviation of a share is below 0.0016


@pytest.fixture(scope="module")
def draws():
    """(len(LOG_A), DRAWS)"""
    log_a = torch.tensor(LOG_A, dtype=torch.float64)[:, None].expand(-1, DRAWS)
    return hc.sample(log_a, torch.Generator().manual_seed(0))


def distribution(x, log_a):
    """P(gate <= x) for 0 <= x < 1: the stretched gate is below x where the uniform is below a value."""
    share = (x - hc.GAMMA) / (hc.ZETA - hc.GAMMA)
    return 1 / (1 + math.exp(-(hc.TEMPERATURE * math.log(share / (1 - share)) - log_a)))


@pytest.mark.parametrize("x", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_the_distribution(draws, x):
    expected = [distribution(x, log_a) for log_a in LOG_A]
    assert (draws <= x).double().mean(1).tolist() == pytest.approx(expected, abs=0.008)


def test_the_probability_of_being_open(draws):
    opened = hc.open_probability(torch.tensor(LOG_A, dtype=torch.float64))
    assert (draws > 0).double().mean(1).tolist() == pytest.approx(opened.tolist(), abs=0.008)
    assert opened.tolist() == pytest.approx([1 - distribution(0.0, log_a) for log_a in LOG_A])


def test_the_expectation(draws):
    """E g is the integral of P(g > x) from 0 to 1."""
    grid = [(place + 0.5) / 2000 for place in range(2000)]
    expected = [sum(1 - distribution(x, log_a) for x in grid) / 2000 for log_a in LOG_A]
    assert draws.mean(1).tolist() == pytest.approx(expected, abs=0.008)


def test_gates_are_within_bounds_and_reach_both(draws):
    assert draws.min() == 0 and draws.max() == 1
    assert ((draws == 0) | (draws == 1)).double().mean(1).min() > 0.3


@given(st.floats(-100, 100))
def test_the_gate_at_evaluation_is_symmetric_and_clipped(log_a):
    gate, mirrored = hc.noiseless(torch.tensor([log_a, -log_a], dtype=torch.float64)).tolist()
    assert gate + mirrored == pytest.approx(1)
    assert (gate == 0, gate == 1) == (log_a <= -math.log(11), log_a >= math.log(11))


def test_the_gradient_against_finite_differences():
    log_a = torch.tensor(LOG_A, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: hc.sample(x, torch.Generator().manual_seed(5)), log_a)
    assert torch.autograd.gradcheck(hc.open_probability, log_a)
