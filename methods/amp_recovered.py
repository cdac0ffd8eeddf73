"""AMP with recovery: what it leaves of the model is trained with low-rank adapters (Mugnaini et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from transformers.pytorch_utils import Conv1D

from methods import AtLeast, AtMost, Trained, View, joint
from methods.amp import amp
from methods.contract.schedule import Schedule, trajectories
from methods.heads import find_mlps
from methods.heads.finding.linear import Linear, features
from methods.random import random_to_train
from methods.training.loop import to_float32, train, training_of
from methods.training.smaller import smaller_training_copy


@dataclass(frozen=True)
class Adapters:
    """Low-rank adapters and their training. A linear layer computes W x + (alpha / rank) B A dropout(x)."""

    rank: int  # rows of A, and columns of B
    alpha: float
    dropout: float
    learning_rate: float
    seed: int  # of the initial A (the initial B is zero) and of dropout


@joint("amp-recovered", source="Mugnaini et al. 2025, AMP, with LoRA", controls={"choice": ["inverse", "random"]})
def recovered(
    view: View,
    budgets: Sequence[int],
    *,
    choice: Annotated[Literal["amp", "inverse", "random"], "what chooses the parts, before any training"] = "amp",
    parts: Annotated[Literal["both", "heads", "neurons"], "what is ranked and removed"] = "both",
    rank: Annotated[int, "rank of the adapters", AtLeast(1)] = 8,
    alpha: Annotated[float, "the output of the adapters is multiplied by alpha / rank", AtLeast(0)] = 16.0,
    dropout: Annotated[float, "dropout on the inputs of the adapters", AtLeast(0), AtMost(1)] = 0.05,
    learning_rate: Annotated[float, "initial learning rate of AdamW", AtLeast(0)] = 3e-4,
    batch_size: Annotated[int, "texts in a step; the epochs stay. 0: as many as the task takes", AtLeast(0)] = 0,
) -> Iterator[Trained]:
    """Removes heads and neurons as AMP does, then trains LoRA adapters on the rest and merges them.

        y = W x + (alpha / rank) B A dropout(x),  A: (rank, inputs), B: (outputs, rank)

    Rank and learning rate are the paper's. Scale, dropout and layers, on which it is silent, are those of the authors'
    code: all linear layers of attention and feed-forward layers, no other weight, no weight decay, a learning rate that
    falls linearly to zero. Training lasts for the share of the task's own training that a joint method takes: the
    paper's two epochs are two thirds of the harness task's three. The paper's batch is one text (``batch_size=1``); the
    authors' code sends texts one by one too, and adds up the gradients of 16 (``batch_size=16``). The loss is the
    task's, which counts all tokens of a text; the authors' code leaves out those of the prompt.

    ``choice=inverse`` and ``choice=random`` are controls with the same training. With ``parts=neurons`` all units are
    kept.

    ``report``: steps of one training. They are reported even where no linear layer is left and none is taken, as where
    all heads and neurons are removed. There is no trace of the training.

    Source: Mugnaini et al., "Efficient LLMs with AMP", arXiv 2504.21174; Hu et al., "LoRA", arXiv 2106.09685.
    """
    if batch_size:
        view = replace(view, training=training_of(view).in_batches_of(batch_size))
    plan = Schedule(allocation="layer", inverse=choice == "inverse")
    score = partial(random_to_train if choice == "random" else amp, parts=parts)
    (path,) = trajectories(score, view, plan)
    units, seed = len(view.heads), int(torch.randint(2**62, (), generator=view.generator))
    adapters = Adapters(rank, alpha, dropout, learning_rate, seed)
    for keep in budgets:
        mask, neurons = path.units_kept(units - keep, units), path.neurons_kept(units - keep, units)
        model = adapted(view, mask, neurons, adapters)
        yield Trained(mask, model, {"steps": training_of(view).steps}, neurons)


def adapted(view: View, mask: Tensor, neurons: Mapping[str, Tensor] | None, adapters: Adapters) -> nn.Module:
    """A copy of the model with ``adapters`` trained, without the units and neurons that are not kept, and merged.

    mask: (units,) bool. neurons: (width,) bool by name of the feed-forward layer, None to keep all. The copy is whole,
    frozen and in evaluation mode. Weights keep their dtype; adapters are trained in float32.

    Raises FloatingPointError if the loss is not finite.
    """
    from peft import LoraConfig  # slow to import, and no other method needs it
    from peft.tuners.lora import LoraModel

    training = training_of(view)
    with smaller_training_copy(view, adapters.seed, mask, neurons) as (smaller, whole):
        if targets := _targets(view, smaller):
            config = LoraConfig(
                r=adapters.rank,
                lora_alpha=cast(int, adapters.alpha),
                lora_dropout=adapters.dropout,
                target_modules=targets,
                fan_in_fan_out=isinstance(smaller.get_submodule(targets[0]), Conv1D),  # GPT-2's weights are transposed
            )
            tuner = LoraModel(cast(Any, smaller), config, "default")
            weights = [weight for weight in smaller.parameters() if weight.requires_grad]
            to_float32(weights)  # adapters are made in the dtype of their layer
            optimizer = torch.optim.AdamW(weights, lr=adapters.learning_rate, weight_decay=0.0, fused=True)
            schedule = LambdaLR(optimizer, lambda step: 1 - step / training.steps)
            train(
                view, smaller, [weights], [optimizer, schedule], what="adapters", learning_rate=adapters.learning_rate
            )
            tuner.merge_and_unload()  # into the weights of ``smaller``
    return whole


def _targets(view: View, model: nn.Module) -> list[str]:
    """Paths of the linear layers of attention and feed-forward layers with inputs and outputs left in ``model``."""
    paths = [path for site in view.heads.sites for path in (*site.projections.values(), site.output)]
    paths += [path for mlp in find_mlps(view.model) for path in (*mlp.inputs, mlp.output)]
    return [path for path in dict.fromkeys(paths) if all(features(cast(Linear, model.get_submodule(path))))]
