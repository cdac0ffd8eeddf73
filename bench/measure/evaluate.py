"""Quality of the physically smaller model at every level, and the proof that it is the model with its heads gated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from methods.contract.choice import Choice
from methods.heads import count_megabytes, count_parameters, restarting
from methods.heads.surgery.shrink import shrink, working_copy
from tasks.contract import Answers, Task

# Of the logits' scale, in float32. Rounding alone makes up to 1e-5 in trained models at 512 tokens; one unit too many
# or too few makes 1e-2 and more.
TOLERANCE = 1e-4
# In half precision, in units of its eps: gated and smaller model add up the same numbers in another order, which alone
# makes up to 5 in Llamas of 32 layers (less in the small models of the other families).
HALF_TOLERANCE = 8


class NotExact(ArithmeticError):
    """The smaller model does not give the logits of the gated one: heads were not removed exactly."""


@dataclass(frozen=True)
class Evaluation:
    """What a model, or what is left of it, is worth and takes."""

    answers: Answers
    parameters: dict[str, int]  # by module
    megabytes: dict[str, float]  # by module, MB of 2**20 bytes


def measure(task: Task, model: nn.Module) -> Evaluation:
    """Evaluate ``model`` as it is. Raises FloatingPointError where logits are not finite."""
    return Evaluation(task.answers(model), count_parameters(model), count_megabytes(model))


def evaluate(task: Task, choices: Sequence[Sequence[Choice]]) -> list[list[Evaluation]]:
    """Evaluate the smaller model of every choice (draws, levels), each distinct one once.

    Raises FloatingPointError where logits are not finite.
    """
    known: dict[tuple[object, ...], Evaluation] = {}
    for draw in choices:
        with _smaller_models(draw) as smaller:
            for choice in draw:
                if choice.identity not in known:
                    known[choice.identity] = measure(task, smaller(choice))
    return [[known[choice.identity] for choice in draw] for draw in choices]


@contextmanager
def _smaller_models(draw: Sequence[Choice]) -> Iterator[Callable[[Choice], nn.Module]]:
    """Inside, a function that gives the smaller model of each choice, asked for in their order.

    Where each choice keeps part of what the one before keeps, and only heads go, it is one model that gets ever
    smaller, and passes over the same examples start at the lowest block that lost a head.
    """
    first = draw[0]
    if any(choice.model is not first.model or choice.neurons is not None for choice in draw) or any(
        bool((after.mask & ~before.mask).any()) for before, after in pairwise(draw)
    ):
        yield Choice.smaller
        return
    model, heads, units = working_copy(first.model), first.heads, torch.arange(len(first.mask))
    with restarting(model, heads) as restart:

        def shrunk(choice: Choice) -> nn.Module:
            nonlocal heads, units
            keep = choice.mask[units]
            if not keep.all():
                left = heads.kept(keep)
                for site in heads.site_of_unit[~keep].unique().tolist():
                    restart.lost(site, left[heads.sites[site].name])
                heads, units = shrink(model, keep, heads), units[keep]
            return model

        yield shrunk


def tolerance_of(dtype: torch.dtype) -> float:
    """How far logits of ``dtype`` may lie apart by rounding alone, in units of their scale."""
    return max(TOLERANCE, HALF_TOLERANCE * torch.finfo(dtype).eps)


@torch.no_grad()
def gap(task: Task, choice: Choice, smaller: nn.Module) -> float:
    """Largest difference between the logits of ``smaller`` and of the gated model, in units of their scale.

    Raises NotExact above the tolerance.
    """
    batch = task.probe(8, next(choice.model.parameters()).device)
    with choice.gated() as whole:
        expected = task.logits(whole, batch)
    tolerance = tolerance_of(expected.dtype)
    expected = expected.float()
    difference = (task.logits(smaller, batch).float() - expected).abs().max() / expected.abs().max().clamp_min(1)
    if not difference <= tolerance:
        raise NotExact(
            f"with {choice.removed} of {len(choice.mask)} units removed, gated and smaller model differ by "
            f"{difference:.1e} of the logits' scale"
        )
    return float(difference)
