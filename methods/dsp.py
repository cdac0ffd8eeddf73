"""Differentiable subset pruning, and the straight-through estimator (Li, Cotterell & Sachan 2021)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from methods import AtLeast, AtMost, OptionError, Trained, View, joint
from methods.heads import HeadMap
from methods.training.cooling import PAPER_RATE, Cooling, by_steps, paper
from methods.training.gates import LearningSteps, Seeds, train_gates
from methods.training.loop import Start, for_epochs, started, training_of
from methods.training.smaller import train_remaining
from methods.training.top_k import gumbel, soft_top_k, straight_through_top_k


def _trained_from_start(options: Mapping[str, Any]) -> None:
    if options["frozen"] and options["start"] == "pretrained":
        raise OptionError("start=pretrained trains the weights, so it does not go with frozen=true")


@joint(
    "dsp-joint",
    source="Li, Cotterell & Sachan 2021",
    variants={"dsp-pipelined": {"frozen": True}, "ste": {"gates": "straight-through"}},
    check=_trained_from_start,
)
def dsp(
    view: View,
    budgets: Sequence[int],
    *,
    gates: Annotated[
        Literal["gumbel", "straight-through"], "noisy soft top-K that is annealed, or hard top-K without noise"
    ] = "gumbel",
    frozen: Annotated[bool, "train the gates only, on the model as it is"] = False,
    start: Start = "finetuned",
    epochs: Annotated[
        float,
        "passes over the training split; 0 for the share of the task's own training that --training says",
        AtLeast(0),
    ] = 0.0,
    schedule: Annotated[
        Literal["by-steps", "paper"], "temperatures and learning rate that follow from the steps, or the paper's"
    ] = "by-steps",
    learning_rate: Annotated[float, "initial learning rate of the gates' parameters; 0: by schedule", AtLeast(0)] = 0.0,
    start_temperature: Annotated[float, "temperature at the first step; 0: by schedule", AtLeast(0)] = 0.0,
    end_temperature: Annotated[float, "temperature after the cooldown; 0: by schedule", AtLeast(0)] = 0.0,
    cooldown: Annotated[
        float, "share of the steps over which the temperature falls; 0: by schedule", AtLeast(0), AtMost(1)
    ] = 0.0,
) -> Iterator[Trained]:
    """Trains gates to select K units, annealed from soft to hard while the weights adapt to them.

        gates = soft top-K of w + Gumbel noise,  w: one parameter per unit, (units,)

    One draw of noise serves the whole batch. After training, the K units with the largest w are kept. Each budget is
    trained from the same model, on the same batches with the same noise.

    The schedule follows from the number of steps. The paper's, ``schedule=paper``, cools from 1000 to 1e-8 over 25,000
    of 36,816 steps (joint, three epochs of MNLI in batches of 32) or 8,333 of 12,272 (pipelined, one epoch), 0.68 in
    both cases, at a learning rate of 0.5. In a hundred steps it passes in a few the temperatures at which gates differ
    and still move: above 1 all units look alike beside the noise, below 0.01 the gates are 0 or 1. So the default,
    ``schedule=by-steps``, with s = min(1, steps / 36,816), cools from 10^(3 s) to 10^-(2 + 6 s), also over 0.68 of the
    steps. Its learning rate is 0.5 s^(-1/8) where weights adapt to noisy gates, so that the units kept stand out from
    the noise in time, 0.5 s^(1/8) with frozen weights, and 0.5 without noise. From 36,816 steps on this is the paper's
    schedule. docs/joint-schedules.md has what was measured.

    In the paper, joint training takes the place of fine-tuning (``start=pretrained`` with all steps), and pipelined
    training is one more epoch (``epochs=1``). A task's built-in model has no pretraining: there, ``start=pretrained``
    trains from scratch with gates.

    From its code: one draw of noise per batch; w initialised uniformly, after Glorot; a learning rate that falls to
    zero.

    ``report``: steps; learning_steps, those in which the gradient of w still matters (see ``LearningSteps``);
    cooldown_steps, start_temperature and final_temperature (not with straight-through gates); learning_rate; margin,
    by which the smallest w kept exceeds the largest removed.

    Source: Li, Cotterell & Sachan, "Differentiable Subset Pruning of Transformer Heads", TACL 2021.
    """
    view = for_epochs(started(view, start), epochs)
    steps = training_of(view).steps
    planned = paper(steps) if schedule == "paper" else by_steps(steps, frozen)
    cooling = Cooling(
        start_temperature or planned.start,
        end_temperature or planned.end,
        round(cooldown * steps) if cooldown else planned.steps,
        learning_rate or (planned.learning_rate if gates == "gumbel" else PAPER_RATE),
    )
    seeds = Seeds.draw(view)

    def train(keep: int) -> Trained:
        noise = seeds.noise()
        w = _initial(view.heads, noise)
        if keep in (0, len(w)):  # nothing to choose
            mask = view.heads.best(w, keep)
            if frozen:
                return Trained(mask, view.model, {"steps": 0})
            model, trace = train_remaining(view, mask, seeds.dropout)
            return Trained(mask, model, {"steps": steps}, trace=trace)

        def gates_at(step: int) -> Tensor:
            if gates == "straight-through":
                return straight_through_top_k(w, keep)
            return soft_top_k(w + gumbel(len(w), noise), keep, cooling.at(step))

        learning = LearningSteps(w)
        model, trace = train_gates(
            view, w, gates_at, learning_rate=cooling.learning_rate, frozen=frozen, seeds=seeds, before_update=learning
        )
        mask = view.heads.best(w, keep)
        report: dict[str, float] = {
            "steps": steps,
            "learning_steps": learning.count,
            "learning_rate": cooling.learning_rate,
            "margin": (w[mask].min() - w[~mask].max()).item(),
        }
        if gates == "gumbel":
            report["cooldown_steps"] = cooling.steps
            report["start_temperature"] = cooling.start
            report["final_temperature"] = cooling.at(steps - 1)
        return Trained(mask, view.model if frozen else model, report, trace=trace)

    return map(train, budgets)


def _initial(heads: HeadMap, generator: torch.Generator) -> Tensor:
    """Initial w, (units,): uniform within Glorot's bound, sqrt(6 / (layers + heads per layer))."""
    bound = math.sqrt(6 / (len(heads.shape) + max(heads.shape)))
    return torch.empty(len(heads), dtype=torch.float64).uniform_(-bound, bound, generator=generator).requires_grad_()
