"""The hard concrete distribution: gates in [0, 1] that can be 0, and 1, exactly (Louizos et al. 2018).

A uniform u makes s = sigmoid((log u - log(1 - u) + log_a) / TEMPERATURE), which is stretched to (GAMMA, ZETA) and
clipped to [0, 1]. Constants as in the published code of Voita et al. 2019 (there is 2/3 for 0.33 in Louizos et al.).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TEMPERATURE = 0.33
GAMMA, ZETA = -0.1, 1.1
EPSILON = 1e-6  # u stays this far from 0 and 1


def sample(log_a: Tensor, generator: torch.Generator) -> Tensor:
    """One gate for each entry of ``log_a``, (units,), with a gradient to it wherever the gate is not clipped."""
    u = torch.empty_like(log_a).uniform_(EPSILON, 1 - EPSILON, generator=generator)
    return _stretched((u.log() - (-u).log1p() + log_a) / TEMPERATURE)


def noiseless(log_a: Tensor) -> Tensor:
    """The gates at evaluation, (units,): 0 up to log_a = -2.398, 1 from 2.398 on."""
    return _stretched(log_a)


def open_probability(log_a: Tensor) -> Tensor:
    """Probability that a sampled gate is not 0, (units,)."""
    return torch.sigmoid(log_a - TEMPERATURE * math.log(-GAMMA / ZETA))


def _stretched(logits: Tensor) -> Tensor:
    return (logits.sigmoid() * (ZETA - GAMMA) + GAMMA).clamp(0, 1)
