"""Differentiable subset pruning, and the straight-through estimator (Li, Cotterell & Sachan 2021)."""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import torch
from torch import Tensor

from methods import AtLeast, AtMost, Trained, View, joint
from methods.heads import HeadMap
from methods.training.gates import Seeds, train_gates
from methods.training.loop import training_of
from methods.training.smaller import train_remaining
from methods.training.top_k import annealed, gumbel, hard_top_k, soft_top_k, straight_through_top_k


@joint(
    "dsp-joint",
    source="Li, Cotterell & Sachan 2021",
    variants={"dsp-pipelined": {"frozen": True}, "ste": {"gates": "straight-through"}},
)
def dsp(
    view: View,
    budgets: Sequence[int],
    *,
    gates: Annotated[
        Literal["gumbel", "straight-through"], "noisy soft top-K that is annealed, or hard top-K without noise"
    ] = "gumbel",
    frozen: Annotated[bool, "train the gates only, on the model as it is"] = False,
    learning_rate: Annotated[float, "initial learning rate of the gates' parameters", AtLeast(0)] = 0.5,
    start: Annotated[float, "temperature at the first step", AtLeast(1e-12)] = 1000.0,
    end: Annotated[float, "temperature after the cooldown", AtLeast(1e-12)] = 1e-8,
    cooldown: Annotated[float, "share of the steps over which the temperature falls", AtLeast(0), AtMost(1)] = 0.68,
) -> Iterator[Trained]:
    """Trains gates to select K units, annealed from soft to hard while the weights adapt to them.

        gates = soft top-K of w + Gumbel noise,  w: one parameter per unit, (units,)

    One draw of noise serves the whole batch. After training, the K units with the largest w are kept. Each budget is
    trained from the task's model, on the same batches with the same noise.

    From the paper: temperatures from 1000 to 1e-8; a learning rate of 0.5; a cooldown of 25,000 out of 36,816 steps
    (joint, three epochs of MNLI in batches of 32) or of 8,333 out of 12,272 (pipelined, one epoch), 0.68 in both cases.
    From its code: one draw of noise per batch; w initialised uniformly, after Glorot; a learning rate that falls to
    zero. Different here: the pipelined variant takes as many steps as the joint one, and both start from a model
    trained for the task.

    ``report``: steps; cooldown_steps and final_temperature (not with straight-through gates); margin, by which the
    smallest w kept exceeds the largest removed.

    Source: Li, Cotterell & Sachan, "Differentiable Subset Pruning of Transformer Heads", TACL 2021.
    """
    steps = training_of(view).steps
    cooldown_steps = round(cooldown * steps)
    seeds = Seeds.draw(view)

    def train(keep: int) -> Trained:
        noise = seeds.noise()
        w = _initial(view.heads, noise)
        if keep in (0, len(w)):  # nothing to choose
            mask = hard_top_k(w, keep)
            return (
                Trained(mask, view.model, {"steps": 0})
                if frozen
                else Trained(mask, train_remaining(view, mask, seeds.dropout), {"steps": steps})
            )

        def gates_at(step: int) -> Tensor:
            if gates == "straight-through":
                return straight_through_top_k(w, keep)
            return soft_top_k(w + gumbel(len(w), noise), keep, annealed(step, cooldown_steps, start, end))

        model = train_gates(view, w, gates_at, learning_rate=learning_rate, frozen=frozen, seeds=seeds)
        mask = hard_top_k(w, keep)
        report: dict[str, float] = {"steps": steps}
        if gates == "gumbel":
            report["cooldown_steps"] = cooldown_steps
            report["final_temperature"] = annealed(steps - 1, cooldown_steps, start, end)
        if 0 < keep < len(w):
            report["margin"] = (w[mask].min() - w[~mask].max()).item()
        return Trained(mask, view.model if frozen else model, report)

    return map(train, budgets)


def _initial(heads: HeadMap, generator: torch.Generator) -> Tensor:
    """Initial w, (units,): uniform within Glorot's bound, sqrt(6 / (layers + heads per layer))."""
    bound = math.sqrt(6 / (len(heads.shape) + max(heads.shape)))
    return torch.empty(len(heads), dtype=torch.float64).uniform_(-bound, bound, generator=generator).requires_grad_()
