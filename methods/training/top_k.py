"""Differentiable gates that select K of N units (Li, Cotterell & Sachan 2021, after Xie & Ermon 2019)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

LARGEST_GRADIENT = 1e100  # has a finite square


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
    units = len(scores)
    if keep in (0, units):
        return torch.full_like(scores, float(keep > 0), requires_grad=False)
    r, gates = scores, torch.zeros_like(scores)
    for _ in range(keep):
        logits = (r - r.detach().amax()) / temperature
        log_sum = logits.logsumexp(0)
        p = (logits - log_sum).exp()
        gates = gates + p
        r = r + _log_complement(logits, log_sum, p)
        if r.requires_grad:
            # Ties multiply the gradient by up to 1 / temperature per round, which overflows.
            r.register_hook(lambda gradient: gradient.clamp(-LARGEST_GRADIENT, LARGEST_GRADIENT))
    return gates


def _log_complement(logits: Tensor, log_sum: Tensor, p: Tensor) -> Tensor:
    """log(1 - p) for p = softmax(logits), all (units,); also exact for the largest p, which may round to 1."""
    first = logits.argmax()
    log_others = logits.index_fill(0, first, -math.inf).logsumexp(0) - log_sum
    is_first = torch.arange(len(logits)) == first
    return torch.where(is_first, log_others, torch.log1p(-p.masked_fill(is_first, 0.0)))


def gumbel(units: int, generator: torch.Generator) -> Tensor:
    """Standard Gumbel noise, (units,) in float64: mean 0.577, standard deviation 1.283."""
    return -torch.empty(units, dtype=torch.float64).exponential_(generator=generator).log()
