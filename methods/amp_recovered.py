"""AMP with recovery: what it leaves of the model is trained with low-rank adapters (Mugnaini et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from methods.training.loop import to_float32, train, training_copy, training_of


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
) -> Iterator[Trained]:
    """Removes heads and neurons as AMP does, then trains LoRA adapters on the rest and merges them.

        y = W x + (alpha / rank) B A dropout(x),  A: (rank, inputs), B: (outputs, rank)

    Rank and learning rate are the paper's. Scale, dropout and layers, on which it is silent, are those of the authors'
    code: all linear layers of attention and feed-forward layers, no other weight, no weight decay, a learning rate that
    falls linearly to zero. Steps are the share of the task's own training that a joint method takes: the paper's two
    epochs are two thirds of the harness task's three. The loss is the task's, which counts all tokens of a text; the
    authors' code leaves out those of the prompt.

    ``choice=inverse`` and ``choice=random`` are controls with the same training. With ``parts=neurons`` all units are
    kept.

    Source: Mugnaini et al., "Efficient LLMs with AMP", arXiv 2504.21174; Hu et al., "LoRA", arXiv 2106.09685.
    """
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
    """A copy of the model with ``adapters`` trained, while units and neurons not kept are gated to zero, and merged.

    mask: (units,) bool. neurons: (width,) bool by name of the feed-forward layer, None to keep all. The copy is frozen
    and in evaluation mode. Weights keep their dtype; adapters are trained in float32.

    Raises FloatingPointError if the loss is not finite.
    """
    from peft import LoraConfig  # slow to import, and no other method needs it
    from peft.tuners.lora import LoraModel

    training = training_of(view)
    targets = _targets(view)
    with training_copy(view, adapters.seed) as model:
        config = LoraConfig(
            r=adapters.rank,
            lora_alpha=cast(int, adapters.alpha),
            lora_dropout=adapters.dropout,
            target_modules=targets,
            fan_in_fan_out=isinstance(view.model.get_submodule(targets[0]), Conv1D),  # GPT-2's weights are transposed
        )
        tuner = LoraModel(cast(Any, model), config, "default")
        _gate(view, model, targets, mask, neurons)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        to_float32(weights)  # adapters are made in the dtype of their layer
        optimizer = torch.optim.AdamW(weights, lr=adapters.learning_rate, weight_decay=0.0, fused=True)
        schedule = LambdaLR(optimizer, lambda step: 1 - step / training.steps)
        train(view, model, [weights], [optimizer, schedule], what="adapters", learning_rate=adapters.learning_rate)
        return tuner.merge_and_unload()  # which is ``model``


def _targets(view: View) -> list[str]:
    """Paths of the linear layers of attention and feed-forward layers that have inputs and outputs left."""
    paths = [path for site in view.heads.sites for path in (*site.projections.values(), site.output)]
    paths += [path for mlp in find_mlps(view.model) for path in (*mlp.inputs, mlp.output)]
    return [path for path in dict.fromkeys(paths) if all(features(cast(Linear, view.model.get_submodule(path))))]


def _gate(
    view: View, model: nn.Module, targets: Sequence[str], mask: Tensor, neurons: Mapping[str, Tensor] | None
) -> None:
    """Gate what is not kept to zero at the input of the output projections among ``targets``, and of their adapters.

    ``gated`` does not work here: it expects plain linear layers, and these are wrapped by adapters. Merging removes the
    wrappers, and the hooks with them.
    """
    inputs = {
        site.output: mask[view.heads.unit_of_head(index)].repeat_interleave(site.head_dim)
        for index, site in enumerate(view.heads.sites)
    }
    if neurons is not None:
        inputs |= {mlp.output: neurons[mlp.name] for mlp in find_mlps(view.model)}
    for path in inputs.keys() & targets:  # layers with nothing left to gate are no targets
        model.get_submodule(path).register_forward_pre_hook(partial(_multiply, inputs[path]))


def _multiply(kept: Tensor, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (args[0] * kept.to(args[0].device, args[0].dtype), *args[1:])  # (..., inputs)
