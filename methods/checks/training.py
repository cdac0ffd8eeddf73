"""What a joint method trains: one whole model per budget, ready to use."""

from __future__ import annotations

import math

import torch
from torch import nn

from methods import Trained, View
from methods.checks.case import RESULTS, ConfiguredMethod, Failure, check
from methods.checks.compare import bits
from methods.checks.tiny_models import TinyModel
from methods.contract.choice import Choice

CLOSE = 1e-4  # largest difference between logits with heads gated and removed, as a share of the largest logit


@check("joint")
def trained_models_are_ready(configured: ConfiguredMethod, on: TinyModel) -> None:
    """Each trained model is whole, in evaluation mode, without hooks, and not trained further for the next budget."""
    view = configured.seen(on.view())
    units = len(view.heads)
    budgets = [units - 1, units // 2, 0]
    results = []
    for trained in configured.function(view, budgets):
        if not isinstance(trained, Trained):
            raise Failure(f"gives a {type(trained).__name__}, expected {RESULTS['joint']}")
        results.append((trained, {name: weight.clone() for name, weight in trained.model.state_dict().items()}))
    if len(results) != len(budgets):
        raise Failure(f"{len(results)} results for the {len(budgets)} budgets {budgets}")
    for keep, (trained, weights) in zip(budgets, results, strict=True):
        where = f"the model for {keep} of {units} units"
        later = trained.model.state_dict()
        if changed := [name for name, weight in weights.items() if bits(weight) != bits(later[name])]:
            raise Failure(f"{changed[0]} of {where} changed after it was yielded: each budget needs its own copy")
        _check_ready(trained, view, where)


def _check_ready(trained: Trained, view: View, where: str) -> None:
    """Raises Failure unless the trained model can be used as it is."""
    view.heads.check_model(trained.model)  # no head is removed yet
    for path, module in trained.model.named_modules():
        name = path or "the model"
        if module.training:
            raise Failure(f"{name} is in training mode in {where}")
        if _hooks(module) > _hooks(view.model.get_submodule(path)):
            raise Failure(f"{name} has a hook in {where}")
    if wrong := {name: value for name, value in trained.report.items() if not math.isfinite(value)}:
        raise Failure(f"the report of {where} has values that are not finite: {wrong}")
    choice = Choice(trained.model, view.heads, trained.mask.cpu(), trained.neurons)
    batch = view.batches[0]
    with torch.no_grad():
        with choice.gated() as model:
            gated = view.forward(model, batch)
        if not gated.isfinite().all():
            raise Failure(f"logits of {where} are not finite")
        gap = (view.forward(choice.smaller(), batch) - gated).abs().max() / gated.abs().max()
    if not gap <= CLOSE:
        raise Failure(f"logits of {where} differ by {gap:.2g} of the largest once its heads are removed")


def _hooks(module: nn.Module) -> int:
    return sum(len(hooks) for name, hooks in vars(module).items() if name.endswith("_hooks"))
