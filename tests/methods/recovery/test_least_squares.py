"""Sums over tokens give what all tokens together give, and old weights stay where new ones are worse."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import lsmr

from methods.recovery.least_squares import STRENGTHS, Moments, best_of, damped_heads, scaled_heads, whole_projections
from methods.recovery.projection import Projection
from tests.methods.recovery.oracle import whole

SHAPES = {"tokens": st.integers(1, 12), "inputs": st.sampled_from([0, 2, 4]), "outputs": st.integers(1, 3)}


def draw(seed, *shapes):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def moments_of(x, t, parts=2):
    found = Moments.zero(x.shape[1], t.shape[1], x.device)
    for some, wanted in zip(x.chunk(parts), t.chunk(parts), strict=True):
        found.add(some, wanted)
    return found


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), **SHAPES)
def test_the_error_is_that_of_all_tokens(seed, tokens, inputs, outputs):
    x, t, weight, bias = draw(seed, (tokens, inputs), (tokens, outputs), (inputs, outputs), (outputs,))
    found = moments_of(x, t).error(Projection(weight, bias))
    torch.testing.assert_close(found, float((x @ weight + bias - t).square().sum()), rtol=1e-9, atol=1e-9)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), biased=st.booleans(), **SHAPES)
def test_weights_are_those_of_all_tokens(seed, biased, tokens, inputs, outputs):
    """Of rows with the pull added to them; a layer without a bias gets none, and without inputs nothing at all."""
    x, t, weight, bias = draw(seed, (tokens, inputs), (tokens, outputs), (inputs, outputs), (outputs,))
    old = Projection(weight, bias if biased else None)
    found = list(whole_projections(moments_of(x + 1, t), old))
    assert len(found) == (len(STRENGTHS) if inputs else biased)
    if tokens == 1 and biased:  # centred, it is nothing but zeros, whose scale is rounding
        found = []
    for strength, new in zip(STRENGTHS, found, strict=False):
        wanted = whole(x + 1, t, weight, old.bias, strength)
        torch.testing.assert_close(new.weight, wanted[0], rtol=1e-6, atol=1e-6)
        assert (new.bias is not None) == biased
        if biased:
            torch.testing.assert_close(new.bias, wanted[1], rtol=1e-6, atol=1e-6)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), biased=st.booleans(), tokens=st.integers(1, 12), heads=st.integers(1, 3))
def test_damped_factors_are_those_of_a_solver_that_damps_the_normal_equations(seed, biased, tokens, heads):
    x, t, weight, bias = draw(seed, (tokens, 2 * heads), (tokens, 3), (2 * heads, 3), (3,))
    x = x / 4  # so that the damping counts
    found = damped_heads(moments_of(x, t), Projection(weight, bias if biased else None), heads)
    parts = [x[:, 2 * head : 2 * head + 2] @ weight[2 * head : 2 * head + 2] for head in range(heads)]
    columns = torch.stack([*parts, torch.ones_like(t)], -1).flatten(0, 1)
    normal = columns.T @ columns
    gap = columns.T @ (t - bias * biased).flatten() - normal.sum(1)
    solution = lsmr(normal.numpy(), gap.numpy(), damp=1, atol=1e-14, btol=1e-14, conlim=0, maxiter=10000)[0]
    factors = 1 + torch.from_numpy(solution)[:heads]
    assert (found is None) == bool((factors.abs() > 10).any())
    if found is not None:
        wanted = weight * factors.repeat_interleave(2)[:, None]
        torch.testing.assert_close(found.weight, wanted, rtol=1e-6, atol=1e-6)
        assert found.bias is (bias if biased else None)


def test_a_damped_factor_beyond_10_is_none():
    x, weight, bias = draw(0, (50, 4), (4, 3), (3,))
    for factor, fits in ((9.9, True), (-9.9, True), (10.1, False), (-10.1, False)):
        t = factor * x @ weight + bias + 1  # the number of the ones is 1 too
        found = damped_heads(moments_of(x, t), Projection(weight, bias), 2)
        assert (found is not None) == fits
        if fits:
            torch.testing.assert_close(found.weight, factor * weight, rtol=1e-3, atol=1e-3)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), **SHAPES)
def test_a_weaker_pull_never_fits_worse(seed, tokens, inputs, outputs):
    x, t, weight, bias = draw(seed, (tokens, inputs), (tokens, outputs), (inputs, outputs), (outputs,))
    moments, old = moments_of(x, t), Projection(weight, bias)
    for candidates in (whole_projections(moments, old), scaled_heads(moments, old, inputs // 2)):
        errors = [moments.error(old), *map(moments.error, candidates)]
        assert len(errors) > 1 or not inputs
        for stronger, weaker in pairwise(errors):
            assert weaker <= stronger + 1e-9 * (1 + float(t.square().sum()))


def test_old_weights_stay_where_held_out_tokens_fit_them():
    x, weight, bias, other = draw(0, (50, 4), (4, 3), (3,), (4, 3))
    old = Projection(weight, bias)
    fit, kept = moments_of(x, x @ other), moments_of(x, x @ weight + bias)
    assert best_of(whole_projections(fit, old), kept, old, torch.float64) is None
    found = best_of(whole_projections(fit, old), fit, old, torch.float64)
    torch.testing.assert_close(found.weight, other, rtol=1e-3, atol=1e-3)


def test_the_error_is_that_of_rounded_weights():
    x, weight, bias = draw(0, (50, 4), (4, 3), (3,))
    old = Projection(torch.zeros_like(weight), bias)
    found = best_of(whole_projections(moments_of(x, x @ weight), old), moments_of(x, x @ weight), old, torch.bfloat16)
    assert torch.equal(found.weight, found.weight.bfloat16().double())
