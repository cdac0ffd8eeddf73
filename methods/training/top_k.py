"""Differentiable gates that select K of N units (Li, Cotterell & Sachan 2021, after Xie & Ermon 2019)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGEST_GRADIENT = 1e100  # has a finite square
SMALLEST_GATE = 1e-20  # smaller ones are 0: products with them would be denormal, with which processors are slow


def hard_top_k(scores: Tensor, keep: int) -> Tensor:
    """Mask, (units,) bool, of the ``keep`` highest of ``scores``, (units,). Ties go to the lower index."""
    mask = torch.zeros(len(scores), dtype=torch.bool)
    mask[scores.detach().argsort(descending=True, stable=True)[:keep]] = True
    return mask


def straight_through_top_k(scores: Tensor, keep: int) -> Tensor:
    """``hard_top_k`` as gates, (units,), with the identity as gradient to ``scores`` (Bengio et al. 2013)."""
    return hard_top_k(scores, keep).to(scores.dtype) + (scores - scores.detach())


def soft_top_k(scores: Tensor, keep: int, temperature: float) -> Tensor:
    """Gates, (units,), that sum to ``keep`` and tend to ``hard_top_k`` as the temperature tends to 0.

        r = scores; repeat ``keep`` times: p = softmax(r / temperature), gates += p, r += log(1 - p)

    At a high temperature each gate is close to keep / units; in between, a gate may exceed 1. To keep none or all of
    the units leaves no choice: then the gates are constants without a gradient.

    scores: (units,) float64; float32 is too coarse for temperatures near 1e-8, at which training ends.
    """
    if keep in (0, len(scores)):
        return torch.full_like(scores, float(keep > 0), requires_grad=False)
    return _SoftTopK.apply(scores, keep, temperature)  # type: ignore[no-any-return]


class _SoftTopK(torch.autograd.Function):
    """The rounds of ``soft_top_k`` in NumPy: recorded by autograd, they would take as long as a small model's pass."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, keep: int, temperature: float) -> Tensor:
        r = scores.detach().numpy().astype(np.float64)
        gates = np.zeros_like(r)
        rounds = []
        for _ in range(keep):
            first = int(r.argmax())
            logits = (r - r[first]) / temperature
            exponentials = np.exp(logits)
            total = exponentials.sum()
            p = exponentials / total
            # log(1 - p) of the largest p, which may round to 1, is that of the sum of the others.
            logits[first] = -math.inf
            second = logits.max()
            others = np.exp(logits - second)
            rest = others.sum()
            gates += p
            log_complement = np.log1p(np.where(np.arange(len(p)) == first, 0.0, -p))
            log_complement[first] = second + math.log(rest) - math.log(total)
            r = r + log_complement
            rounds.append((p, first, others / rest))
        ctx.rounds, ctx.temperature = rounds, temperature
        gates[gates < SMALLEST_GATE] = 0.0
        return torch.from_numpy(gates).to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        of_gates = gradient.numpy().astype(np.float64)
        of_r = np.zeros_like(of_gates)
        for number, (p, first, others) in enumerate(reversed(ctx.rounds), 1):
            # Of log(1 - p_i), the gradient to logit j is (p_i / (1 - p_i)) (p_j - [i = j]); of that of the first, whose
            # 1 - p may round to 0, it is the softmax of the others minus p_j.
            odds = p / (1 - np.where(np.arange(len(p)) == first, 0.0, p))
            odds[first] = 0.0
            weighted = of_r * odds
            of_logits = p * (of_gates - p @ of_gates) + p * weighted.sum() - weighted + of_r[first] * (others - p)
            of_r = of_r + of_logits / ctx.temperature
            if number < len(ctx.rounds):  # ties multiply it by up to 1 / temperature per round, which overflows
                of_r = of_r.clip(-LARGEST_GRADIENT, LARGEST_GRADIENT)
        return torch.from_numpy(of_r).to(gradient.dtype), None, None


def gumbel(units: int, generator: torch.Generator) -> Tensor:
    """Standard Gumbel noise, (units,) in float64: mean 0.577, standard deviation 1.283."""
    return -torch.empty(units, dtype=torch.float64).exponential_(generator=generator).log()
