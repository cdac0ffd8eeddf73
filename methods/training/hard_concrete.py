"""The hard concrete distribution: gates in [0, 1] that are exactly 0 or 1 with positive probability.

    s = sigmoid((log u - log(1 - u) + log_a) / TEMPERATURE),  u uniform in (0, 1)
    gate = s stretched to (GAMMA, ZETA) and clipped to [0, 1]

Source: Louizos et al. 2018, "Learning Sparse Neural Networks through L0 Regularization". Constants as in the published
code of Voita et al. 2019; Louizos et al. have a temperature of 2/3.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TEMPERATURE = 0.33
GAMMA, ZETA = -0.1, 1.1
EPSILON = 1e-6  # u stays this far from 0 and 1


def sample(log_a: Tensor, generator: torch.Generator) -> Tensor:
    """One gate per entry of ``log_a``, (units,); differentiable with respect to it where the gate is not clipped."""
    u = torch.empty_like(log_a).uniform_(EPSILON, 1 - EPSILON, generator=generator)
    return _stretched((u.log() - (-u).log1p() + log_a) / TEMPERATURE)


def noiseless(log_a: Tensor) -> Tensor:
    """Gates at evaluation, (units,): 0 for log_a up to -2.398, 1 from 2.398."""
    return _stretched(log_a)


def open_probability(log_a: Tensor) -> Tensor:
    """Probability that a sampled gate is not 0, (units,)."""
    return torch.sigmoid(log_a - TEMPERATURE * math.log(-GAMMA / ZETA))


def _stretched(logits: Tensor) -> Tensor:
    return (logits.sigmoid() * (ZETA - GAMMA) + GAMMA).clamp(0, 1)
