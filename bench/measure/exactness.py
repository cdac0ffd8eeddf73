"""Check that a smaller model computes what the model with its heads gated computes."""

from __future__ import annotations

import torch
from torch import nn

from methods.contract.choice import Choice
from tasks.contract import Task

# Relative to the scale of the logits, in float32. Rounding alone gives up to 1e-5 in trained models at 512 tokens; one
# unit too many or too few gives 1e-2 and more.
TOLERANCE = 1e-4
# In half precision, in units of its eps: gated and smaller model add up the same numbers in a different order, which
# gives up to 5 in Llamas of 32 layers (less in the small models of the other families).
HALF_TOLERANCE = 8


class NotExact(ArithmeticError):
    """The smaller model does not give the logits of the gated one: heads were not removed exactly."""


def tolerance_of(dtype: torch.dtype) -> float:
    """How far logits of ``dtype`` may be apart by rounding alone, in units of their scale."""
    return max(TOLERANCE, HALF_TOLERANCE * torch.finfo(dtype).eps)


def gap_between(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference of logits ``found`` from those ``expected``, of the same shape, in units of their scale.

    The scale is the largest ``expected`` logit in absolute value, or 1 where that is larger. NaN if a logit is NaN.
    """
    expected = expected.float()
    return float((found.float() - expected).abs().max() / expected.abs().max().clamp_min(1))


@torch.no_grad()
def largest_gap(task: Task, choice: Choice, smaller: nn.Module) -> float:
    """Largest difference between the logits of ``smaller`` and of the gated model, in units of their scale.

    Raises NotExact above the tolerance.
    """
    batch = task.probe(8, next(choice.model.parameters()).device)
    with choice.gated() as whole:
        expected = task.logits(whole, batch)
    difference = gap_between(task.logits(smaller, batch), expected)
    if not difference <= tolerance_of(expected.dtype):
        raise NotExact(
            f"with {choice.removed} of {len(choice.mask)} units removed, gated and smaller model differ by "
            f"{difference:.1e} of the logits' scale"
        )
    return difference
