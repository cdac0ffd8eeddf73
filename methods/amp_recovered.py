"""AMP with recovery: what it leaves of a model, trained for a while through low-rank adapters.

Mugnaini et al. 2025, "Efficient LLMs with AMP", arXiv 2504.21174; adapters: Hu et al. 2022, "LoRA", arXiv 2106.09685.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from transformers.pytorch_utils import Conv1D

from methods.amp import amp
from methods.contract.options import AtLeast, AtMost
from methods.contract.registry import Trained, joint
from methods.contract.schedule import Schedule, trajectories
from methods.contract.view import View
from methods.heads import find_mlps
from methods.heads.finding.linear import Linear, features
from methods.random import random
from methods.training.loop import descend, training_of, widen


@dataclass(frozen=True)
class Adapters:
    """How adapters are made and trained: a linear layer computes W x + (alpha / rank) B A dropout(x)."""

    rank: int  # rows of A, and columns of B
    alpha: float
    dropout: float
    learning_rate: float
    seed: int  # of A, which is drawn (B starts at zero), and of dropout


@joint("amp-recovered", source="Mugnaini et al. 2025, AMP, with LoRA", controls={"choice": ["inverse", "random"]})
def recovered(
    view: View,
    budgets: Sequence[int],
    *,
    choice: Annotated[Literal["amp", "inverse", "random"], "what chooses, before any training"] = "amp",
    parts: Annotated[Literal["both", "heads", "neurons"], "what is ranked, and removed"] = "both",
    rank: Annotated[int, "rank of the adapters", AtLeast(1)] = 8,
    alpha: Annotated[float, "scale of the adapters, times the rank", AtLeast(0)] = 16.0,
    dropout: Annotated[float, "of the adapters' inputs", AtLeast(0), AtMost(1)] = 0.05,
    learning_rate: Annotated[float, "of AdamW, at its beginning", AtLeast(0)] = 3e-4,
) -> Iterator[Trained]:
    """Remove as AMP does, then train LoRA adapters on what is left, and merge them into its weights.

    Rank and learning rate are the paper's; it is silent on the scale, the dropout and the layers, which are those of
    the authors' code: every linear layer of attention and of the feed-forward layers, no other weight, no weight decay,
    a rate that falls linearly to zero. The steps are the share of the task's own training that a joint method takes:
    two epochs, as in the paper, are two thirds of the harness task's three. The loss is the task's, so that of all
    tokens of a text; the authors' code leaves out those of the prompt.

    ``inverse`` and ``random`` are controls, with the same training. Yields, for each budget, the weights with neurons
    masked too where ``parts`` says so; with ``neurons`` alone, every unit is kept.
    """
    plan = Schedule(allocation="layer", inverse=choice == "inverse")
    score = partial(random, draws=1, parts=parts) if choice == "random" else partial(amp, parts=parts)
    (path,) = trajectories(score, view, plan)
    units, seed = len(view.heads), int(torch.randint(2**62, (), generator=view.generator))
    adapters = Adapters(rank, alpha, dropout, learning_rate, seed)
    for keep in budgets:
        mask, neurons = path.units_kept(units - keep, units), path.neurons_kept(units - keep, units)
        model = adapted(view, mask, neurons, adapters)
        yield Trained(mask, model, {"steps": training_of(view).steps}, neurons)


def adapted(view: View, mask: Tensor, neurons: Mapping[str, Tensor] | None, adapters: Adapters) -> nn.Module:
    """A copy of the model whose weights had ``adapters`` trained and merged, with the units and neurons not kept gated.

    mask: (units,) bool. neurons: (width,) bool by feed-forward layer, None where all stay. The copy comes back in
    evaluation mode and frozen; the model of the view and the random state stay as they were. Weights keep their dtype;
    adapters are trained in float32.

    Raises FloatingPointError where the loss is not finite.
    """
    from peft import LoraConfig  # takes seconds, and other methods do without
    from peft.tuners.lora import LoraModel

    training = training_of(view)
    model: Any = copy.deepcopy(view.model).train()
    model.zero_grad()
    device = next(model.parameters()).device
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.enable_grad():
        torch.manual_seed(adapters.seed)
        targets = _targets(view)
        config = LoraConfig(
            r=adapters.rank,
            lora_alpha=cast(int, adapters.alpha),
            lora_dropout=adapters.dropout,
            target_modules=targets,
            fan_in_fan_out=isinstance(view.model.get_submodule(targets[0]), Conv1D),  # GPT-2's weights are transposed
        )
        tuner = LoraModel(model, config, "default")
        _gate(view, model, targets, mask, neurons)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        widen(weights)  # they come in the dtype of the layer that they adapt
        optimizer = torch.optim.AdamW(weights, lr=adapters.learning_rate, weight_decay=0.0, fused=True)
        schedule = LambdaLR(optimizer, lambda step: 1 - step / training.steps)
        descend(view, model, [weights], [optimizer, schedule], what="adapters", learning_rate=adapters.learning_rate)
    return cast(nn.Module, tuner.merge_and_unload()).eval().requires_grad_(False)


def _targets(view: View) -> list[str]:
    """Paths of the linear layers of attention and of feed-forward layers, but for those without inputs or outputs."""
    paths = [path for site in view.heads.sites for path in (*site.projections.values(), site.output)]
    paths += [path for mlp in find_mlps(view.model) for path in (*mlp.inputs, mlp.output)]
    return [path for path in dict.fromkeys(paths) if all(features(cast(Linear, view.model.get_submodule(path))))]


def _gate(
    view: View, model: nn.Module, targets: Sequence[str], mask: Tensor, neurons: Mapping[str, Tensor] | None
) -> None:
    """Have what is not kept pass nothing on to the output projections among ``targets``, nor to their adapters.

    ``gated`` would not do: it knows plain linear layers only, and here adapters wrap them. The hooks are on the
    wrappers, and go with them when the adapters are merged.
    """
    inputs = {
        site.output: mask[view.heads.unit_of_head(index)].repeat_interleave(site.head_dim)
        for index, site in enumerate(view.heads.sites)
    }
    if neurons is not None:
        inputs |= {mlp.output: neurons[mlp.name] for mlp in find_mlps(view.model)}
    for path in inputs.keys() & targets:  # all but those of layers that have nothing left to gate
        model.get_submodule(path).register_forward_pre_hook(partial(_multiply, inputs[path]))


def _multiply(kept: Tensor, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (args[0] * kept.to(args[0].device, args[0].dtype), *args[1:])  # (..., inputs)
