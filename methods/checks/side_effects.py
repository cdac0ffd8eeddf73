"""A method leaves the model, its batches and the process bit for bit as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from methods import View
from methods.checks.case import ConfiguredMethod, Failure, check
from methods.checks.compare import bits
from methods.checks.isolation import random_states
from methods.checks.tiny_models import TinyModel
from methods.contract.side_effects import count_hooks, switches, tensors_of

PLAIN = (bool, int, float, str, type(None), torch.dtype)  # attributes whose values are compared
SHOWN = 3  # changes that a message names


@check()
def no_side_effects(configured: ConfiguredMethod, on: TinyModel) -> None:
    """Weights, gradients, modes, hooks, attributes, attention, batches and random states stay as they were."""
    for attention, trained in (("sdpa", False), ("eager", True)):
        view = on.view()
        model: Any = view.model
        model.set_attn_implementation(attention)
        for number, parameter in enumerate(model.parameters()):
            parameter.requires_grad_(trained and number % 2 == 0)
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
        which = "every second parameter requires a gradient" if trained else "the model is frozen"
        with _unchanged(view, f"{attention} attention, {which}"):
            configured.select(view, [0, 1, len(view.heads)])


@check(ignores_schedule=True)
def no_side_effects_after_an_error(configured: ConfiguredMethod, on: TinyModel) -> None:
    """The same if the model's forward pass raises an error."""

    def forward(model: nn.Module, batch: Any) -> Tensor:
        model(**batch.inputs)
        raise _Interrupted

    view = replace(on.view(), forward=forward)
    with _unchanged(view, "the forward pass raised an error"), suppress(_Interrupted):
        configured.result(view)


class _Interrupted(Exception):
    """Raised in the forward pass of the model."""


@contextmanager
def _unchanged(view: View, where: str) -> Iterator[None]:
    """Raises Failure if the code inside changes anything in ``_state``."""
    before = _state(view)
    yield
    if changes := _changes(before, _state(view)):
        more = f", and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
        raise Failure(f"not left as found ({where}): {'; '.join(changes[:SHOWN])}{more}")


def _state(view: View) -> dict[str, Any]:
    """Everything that a method could change, by its name in messages."""
    model = view.model
    state = switches() | random_states() | {f"number of {name}": count for name, count in count_hooks(model).items()}
    state |= {"view.kept": bits(view.kept), "number of batches": len(view.batches)}
    for name, parameter in model.named_parameters():
        state[f"weight {name}"] = bits(parameter)
        state[f"requires_grad of {name}"] = parameter.requires_grad
        state[f"gradient of {name}"] = None if parameter.grad is None else bits(parameter.grad)
    for name, buffer in model.named_buffers():
        state[f"buffer {name}"] = bits(buffer)
    for path, module in model.named_modules():
        name = path or "the model"
        state[f"class of {name}"] = type(module).__name__
        state[f"training mode of {name}"] = module.training
        for attribute, value in vars(module).items():
            if not attribute.endswith("_hooks") and attribute != "training":
                state[f"attribute {attribute} of {name}"] = value if isinstance(value, PLAIN) else ""
        if hasattr(module, "config"):
            state[f"attention implementation of {name}"] = module.config._attn_implementation
    return state | {name: bits(values) for name, values in tensors_of(view.batches).items()}


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Differences between two states, in words; the most telling first."""
    changes = [f"{name} is gone" for name in before if name not in after]
    changes += [f"{name} is new" for name in after if name not in before]
    for name, old in before.items():
        if name not in after or after[name] == old:
            continue
        new = after[name]
        if isinstance(old, PLAIN) and old is not None:
            changes.append(f"{name} was {old}, is {new}")
        elif old is None:
            changes.append(f"{name} was None, is set")
        else:
            changes.append(f"{name} was changed" if new is not None else f"{name} was set, is None")
    return sorted(changes, key=lambda change: "random state" in change or "gradients being" in change)
