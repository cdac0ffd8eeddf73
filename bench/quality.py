"""Quality of the physically smaller model at every level, and the proof that it is the model with its heads gated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from methods.heads import HeadMap, count_megabytes, count_parameters, gated, remove_heads
from tasks.contract import Task

TOLERANCE = 1e-5  # of the logits' scale, in float32


class NotExact(ArithmeticError):
    """The smaller model does not give the logits of the gated one: heads were not removed exactly."""


@dataclass(frozen=True)
class Evaluation:
    """What a model, or what is left of it, is worth and takes."""

    outcomes: Tensor  # (N,) bool, whether each test example is answered right
    parameters: dict[str, int]  # by module
    megabytes: dict[str, float]  # by module, MB of 2**20 bytes


def measure(task: Task, model: nn.Module) -> Evaluation:
    """Evaluate ``model`` as it is. Raises FloatingPointError where logits are not finite."""
    return Evaluation(task.outcomes(model), count_parameters(model), count_megabytes(model))


def evaluate(task: Task, model: nn.Module, heads: HeadMap, masks: Tensor) -> list[list[Evaluation]]:
    """Evaluate the smaller model of every mask, (draws, levels, units), each distinct mask once.

    Raises FloatingPointError where logits are not finite.
    """
    known: dict[bytes, Evaluation] = {}
    rows = []
    for draw in masks:
        row = []
        for mask in draw:
            name = mask.numpy().tobytes()
            if name not in known:
                known[name] = measure(task, remove_heads(model, mask, heads))
            row.append(known[name])
        rows.append(row)
    return rows


@torch.no_grad()
def gap(task: Task, model: nn.Module, heads: HeadMap, smaller: nn.Module, mask: Tensor) -> float:
    """Largest difference between the logits of ``smaller`` and of ``model`` gated by ``mask``, in units of their scale.

    Raises NotExact above the tolerance.
    """
    batch = task.probe(8, next(model.parameters()).device)
    with gated(model, mask.float(), heads):
        expected = task.logits(model, batch)
    difference = (task.logits(smaller, batch) - expected).abs().max() / expected.abs().max().clamp_min(1)
    if not difference <= TOLERANCE:
        raise NotExact(
            f"with {int((~mask).sum())} of {len(mask)} units removed, gated and smaller model differ by "
            f"{difference:.1e} of the logits' scale"
        )
    return float(difference)
