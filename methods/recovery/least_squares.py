"""Output weights by ridge least squares, from sums over tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from methods.recovery.projection import Projection

# Strengths of the pull towards the old weights, strongest first, in units of the mean of the squares' diagonal.
STRENGTHS = (10.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5)
LARGEST_FACTOR = 10  # of a head, in either direction, in the code of Kwon et al.
ROUNDING = 1e-9  # share of the squares wanted by which an error must be less to be less


@dataclass
class Moments:
    """Sums over tokens, in float64, of what a projection reads, x (k,), and of what it is to give, t (d,)."""

    x: Tensor  # (k,)
    t: Tensor  # (d,)
    xx: Tensor  # (k, k), sum of x x^T
    xt: Tensor  # (k, d), sum of x t^T
    tt: Tensor  # (), sum of |t|^2
    count: int = 0

    @classmethod
    def zero(cls, inputs: int, outputs: int, device: torch.device) -> Moments:
        """Those of no token."""
        shapes: list[tuple[int, ...]] = [(inputs,), (outputs,), (inputs, inputs), (inputs, outputs), ()]
        x, t, xx, xt, tt = (torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes)
        return cls(x, t, xx, xt, tt)

    def add(self, x: Tensor, t: Tensor) -> None:
        """Add N tokens. x: (N, k). t: (N, d)."""
        x, t = x.double(), t.double()
        self.x += x.sum(0)
        self.t += t.sum(0)
        self.xx.addmm_(x.T, x)
        self.xt.addmm_(x.T, t)
        self.tt += t.square().sum()
        self.count += len(x)

    def error(self, of: Projection) -> float:
        """Sum over the tokens of |x W + b - t|^2."""
        bias = of.offset
        quadratic = ((self.xx @ of.weight - 2 * self.xt) * of.weight).sum() + self.count * bias.square().sum()
        return float(self.tt + quadratic + 2 * bias @ (self.x @ of.weight - self.t))


def whole_projections(moments: Moments, old: Projection) -> Iterator[Projection]:
    """Weights and bias that minimise the mean of |x W + b - t|^2 + r |W - W_old|^2, for each strength r.

    The bias is free, so with no inputs it is the mean of t. Old weights without a bias get none, as a checkpoint has no
    place for it: then nothing can be done without inputs.
    """
    gram, wanted = moments.xx / moments.count, moments.xt / moments.count
    if old.bias is None:
        if len(gram):
            yield from (Projection(old.weight + step, None) for step in _ridge(gram, wanted - gram @ old.weight))
        return
    mean_x, mean_t = moments.x / moments.count, moments.t / moments.count
    gram, wanted = gram - mean_x.outer(mean_x), wanted - mean_x.outer(mean_t)
    for step in _ridge(gram, wanted - gram @ old.weight):
        weight = old.weight + step
        yield Projection(weight, mean_t - mean_x @ weight)


def scaled_heads(moments: Moments, old: Projection, heads: int) -> Iterator[Projection]:
    """The old weights with one factor s_h for each head that minimises the same error + r |s - 1|^2, for each r.

    heads: number of heads that the inputs belong to, equally many each.
    """
    if not heads:
        return
    gram, wanted = _by_head(moments, old, heads)
    for step in _ridge(gram / moments.count, (wanted - gram.sum(1))[:, None] / moments.count):
        yield _scaled(old, 1 + step[:, 0])


def damped_heads(moments: Moments, old: Projection, heads: int) -> Projection | None:
    """The old weights with one factor for each head as in the code of Kwon et al.; None where one leaves [-10, 10].

    A has a column for what each head gives at all tokens and outputs, and one of ones. With z = t - b, the factors are
    1 + d for the d that minimises |A^T A d - A^T (z - A 1)|^2 + |d|^2: a least-squares solver damped by 1 and given the
    normal equations. That of the ones is dropped. heads: as for ``scaled_heads``, 1 or more.
    """
    of_heads, wanted = _by_head(moments, old, heads)
    of_ones = (moments.x * old.weight.sum(1)).unflatten(0, (heads, -1)).sum(1)  # (heads,)
    tokens = of_heads.new_tensor(moments.count)
    corner = tokens * len(moments.t)
    gram = torch.cat([torch.cat([of_heads, of_ones[:, None]], 1), torch.cat([of_ones, corner[None]])[None]])
    gap = torch.cat([wanted, (moments.t - tokens * old.offset).sum()[None]]) - gram.sum(1)
    values, vectors = torch.linalg.eigh(gram)
    factors = 1 + (vectors @ (values / (values.square() + 1) * (vectors.T @ gap)))[:-1]
    return None if (factors.abs() > LARGEST_FACTOR).any() else _scaled(old, factors)


def _by_head(moments: Moments, old: Projection, heads: int) -> tuple[Tensor, Tensor]:
    """Products, summed over tokens, of what two heads give, (heads, heads), and of that with t - b, (heads,)."""
    by_head = (heads, -1)
    overlap = old.weight @ old.weight.T  # x_g W_g . x_h W_h summed over tokens = the sum of xx[g, h] * overlap[g, h]
    gram = (moments.xx * overlap).unflatten(1, by_head).sum(2).unflatten(0, by_head).sum(1)
    return gram, ((moments.xt - moments.x.outer(old.offset)) * old.weight).sum(1).unflatten(0, by_head).sum(1)


def _scaled(old: Projection, factors: Tensor) -> Projection:
    """The old weights times one factor for each head, (heads,)."""
    return Projection(old.weight * factors.repeat_interleave(len(old.weight) // len(factors))[:, None], old.bias)


def _ridge(gram: Tensor, gap: Tensor) -> Iterator[Tensor]:
    """(gram + r I)^-1 gap, for each strength r. gram: (k, k), positive semidefinite. gap: (k, any)."""
    scale = gram.diagonal().mean() if len(gram) else gram.new_ones(())
    if not scale:  # all inputs are constant
        scale = gram.new_ones(())
    for strength in STRENGTHS if len(gram) else STRENGTHS[:1]:
        ridged = gram.clone()
        ridged.diagonal().add_(strength * scale)
        yield torch.cholesky_solve(gap, torch.linalg.cholesky(ridged))


def best_of(
    candidates: Iterator[Projection], held_out: Moments, old: Projection, dtype: torch.dtype
) -> Projection | None:
    """The candidate with the least error on held-out tokens, rounded to ``dtype``; None if the old ones have less."""
    best, least = None, held_out.error(old) - ROUNDING * float(held_out.tt)
    for candidate in candidates:
        rounded = candidate.rounded(dtype)
        if (error := held_out.error(rounded)) < least:
            best, least = rounded, error
    return best
