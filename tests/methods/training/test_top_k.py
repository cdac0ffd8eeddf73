"""Soft and hard choices of K units: against the recursion as it is written, at every K and temperature."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from methods.training.top_k import gumbel, hard_top_k, soft_top_k, straight_through_top_k

FEW = st.sampled_from([0.0, -0.0, 1.0, -2.5])  # few values, so that there are ties
SCORES = st.lists(st.one_of(FEW, st.floats(-50, 50)), min_size=1, max_size=12)
TEMPERATURE = st.one_of(st.sampled_from([1000.0, 1.0, 0.03, 1e-8]), st.floats(-8, 3).map(lambda power: 10.0**power))


def recursion(scores, keep, temperature):
    """The K softmaxes in plain floats, with 1 - p as the sum of the others, so that it never rounds to 0."""
    r, gates = list(scores), [0.0] * len(scores)
    for _ in range(keep):
        scaled = [(value - max(r)) / temperature for value in r]
        whole = sum(math.exp(value) for value in scaled)
        p = [math.exp(value) / whole for value in scaled]
        gates = [gate + share for gate, share in zip(gates, p, strict=True)]
        for unit in range(len(r)):
            others = [value for other, value in enumerate(scaled) if other != unit]
            r[unit] += max(others) + math.log(sum(math.exp(o - max(others)) for o in others)) - math.log(whole)
    return gates


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("temperature", [1000.0, 3.0, 1.0, 0.3, 0.05, 1e-3, 1e-8])
@pytest.mark.parametrize("units", [2, 5, 16])
def test_the_recursion_as_it_is_written(units, temperature):
    for seed, keep in itertools.product(range(3), range(1, units)):
        scores = 3 * torch.randn(units, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        actual = soft_top_k(scores, keep, temperature)
        torch.testing.assert_close(actual, tensor(recursion(scores.tolist(), keep, temperature)), rtol=1e-7, atol=1e-9)


@settings(max_examples=300)
@given(scores=SCORES, temperature=TEMPERATURE, data=st.data())
def test_gates_sum_to_the_budget_and_gradients_are_finite(scores, temperature, data):
    keep = data.draw(st.integers(0, len(scores)))
    w = tensor(scores).requires_grad_()
    gates = soft_top_k(w, keep, temperature)
    assert gates.isfinite().all() and (gates >= 0).all()
    assert abs(gates.sum().item() - keep) < 1e-9
    assert gates.requires_grad == (0 < keep < len(scores))  # else there is nothing to choose
    if gates.requires_grad:
        (gates * torch.linspace(-1, 2, len(scores), dtype=torch.float64)).sum().backward()
        assert w.grad.isfinite().all()
        assert w.grad.norm().isfinite()


@pytest.mark.parametrize("keep", [1, 72, 143])
@pytest.mark.parametrize("temperature", [1.0, 1e-3, 1e-8])
def test_gradients_stay_finite_where_all_are_tied(keep, temperature):
    w = torch.zeros(144, dtype=torch.float64, requires_grad=True)
    (soft_top_k(w, keep, temperature) * torch.linspace(-1, 2, 144)).sum().backward()
    assert w.grad.norm().isfinite()


@given(order=st.permutations(range(9)), keep=st.integers(0, 9), apart=st.floats(1e-3, 10))
def test_the_limit_is_the_hard_choice(order, keep, apart):
    scores = tensor([apart * place for place in order])
    expected = hard_top_k(scores, keep).double()
    torch.testing.assert_close(soft_top_k(scores, keep, 1e-8), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("keep", range(1, 6))
def test_the_other_limit_is_even(keep):
    even = torch.full((6,), keep / 6, dtype=torch.float64)
    torch.testing.assert_close(soft_top_k(tensor([0, 5, -3, 1, 2, 2]), keep, 1e9), even)


@pytest.mark.parametrize("temperature", [1000.0, 1.0, 0.1, 0.01])
@pytest.mark.parametrize("units", [2, 5, 16])
def test_gradient_of_the_recursion_as_autograd_finds_it(units, temperature):
    for seed, keep in itertools.product(range(3), range(1, units)):
        generator = torch.Generator().manual_seed(seed)
        first, slopes = torch.randn(2, units, dtype=torch.float64, generator=generator)
        w, r = (first.clone().requires_grad_() for _ in range(2))
        (soft_top_k(w, keep, temperature) * slopes).sum().backward()
        start, gates = r, torch.zeros(units, dtype=torch.float64)
        for _ in range(keep):
            scaled = r / temperature
            gates = gates + scaled.softmax(0)
            others = scaled.expand(units, units).masked_fill(torch.eye(units, dtype=torch.bool), -math.inf)
            r = r + others.logsumexp(1) - scaled.logsumexp(0)
        (gates * slopes).sum().backward()
        torch.testing.assert_close(w.grad, start.grad, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("temperature", [10.0, 1.0, 0.3])
def test_gradient_against_finite_differences(temperature):
    scores = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    for keep in range(1, 6):
        assert torch.autograd.gradcheck(
            lambda w, keep=keep: soft_top_k(w, keep, temperature), scores, check_undefined_grad=False
        )


@given(scores=SCORES, data=st.data())
def test_hard_top_k_sorts(scores, data):
    keep = data.draw(st.integers(0, len(scores)))
    ranked = sorted(range(len(scores)), key=lambda unit: (-scores[unit], unit))
    assert set(hard_top_k(tensor(scores), keep).nonzero().flatten().tolist()) == set(ranked[:keep])


def test_of_many_ties_the_first_win():
    assert hard_top_k(torch.ones(500), 200).nonzero().flatten().tolist() == list(range(200))


@given(scores=SCORES, data=st.data())
def test_straight_through_is_hard_forward_and_identity_backward(scores, data):
    keep = data.draw(st.integers(0, len(scores)))
    w = tensor(scores).requires_grad_()
    gates = straight_through_top_k(w, keep)
    assert torch.equal(gates, hard_top_k(w, keep).double())
    slopes = torch.arange(1.0, len(scores) + 1, dtype=torch.float64)
    (gates * slopes).sum().backward()
    assert torch.equal(w.grad, slopes)


def test_gumbel_noise_is_gumbel():
    noise = gumbel(200_000, torch.Generator().manual_seed(0))
    assert noise.isfinite().all()
    for quantile in (0.05, 0.5, 0.95):  # P(noise < x) = exp(-exp(-x)); standard deviation of the share below 0.0011
        x = -math.log(-math.log(quantile))
        assert abs((noise < x).double().mean().item() - quantile) < 0.005


def test_noise_and_hard_top_k_sample_without_replacement():
    """Top-2 of log p + Gumbel draws an ordered pair with p_i p_j / (1 - p_i) (Vieira 2014), here seen without order."""
    p, generator = [0.5, 0.3, 0.2], torch.Generator().manual_seed(0)
    kept = torch.stack([hard_top_k(tensor(p).log() + gumbel(3, generator), 2) for _ in range(4000)])
    for i, j in itertools.combinations(range(3), 2):
        expected = p[i] * p[j] / (1 - p[i]) + p[j] * p[i] / (1 - p[j])
        assert abs((kept[:, i] & kept[:, j]).double().mean().item() - expected) < 0.03
