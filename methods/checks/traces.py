"""A method leaves no trace: the model, its batches and the process are as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from methods import View
from methods.checks.case import Failure, Scene, Subject, check
from methods.checks.process import random_states
from methods.contract.side_effects import switches

SHOWN = 3  # differences that a message names


@check()
def left_as_found(subject: Subject, scene: Scene) -> None:
    """Weights, gradients, modes, hooks, attributes, attention, batches, random states: bitwise what they were."""
    for attention, trained in (("sdpa", False), ("eager", True)):
        view = scene.view()
        model: Any = view.model
        model.set_attn_implementation(attention)
        for number, parameter in enumerate(model.parameters()):
            parameter.requires_grad_(trained and number % 2 == 0)
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
        which = "every second parameter requires a gradient" if trained else "the model is frozen"
        with _untouched(view, f"{attention} attention, {which}"):
            subject.select(view, [0, 1, len(view.heads)])


@check(once=True)
def left_as_found_after_an_error(subject: Subject, scene: Scene) -> None:
    """The same where the model's forward pass raises an error in the middle of the method."""

    def forward(model: nn.Module, batch: Any) -> Tensor:
        model(**batch.inputs)
        raise _Interrupted

    view = replace(scene.view(), forward=forward)
    with _untouched(view, "the forward pass raised"), suppress(_Interrupted):
        subject.answer(view)


class _Interrupted(Exception):
    """Raised in the middle of a method."""


@contextmanager
def _untouched(view: View, where: str) -> Iterator[None]:
    """Raises Failure where something is not as it was."""
    before = state(view)
    yield
    if found := differences(before, state(view)):
        more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise Failure(f"left changed ({where}): {'; '.join(found[:SHOWN])}{more}")


def state(view: View) -> dict[str, Any]:
    """All that a method could leave behind, by what to call it."""
    model = view.model
    found = switches() | random_states() | {"view.kept": _bits(view.kept), "number of batches": len(view.batches)}
    for name, parameter in model.named_parameters():
        found[f"weight {name}"] = _bits(parameter)
        found[f"requires_grad of {name}"] = parameter.requires_grad
        found[f"gradient of {name}"] = None if parameter.grad is None else _bits(parameter.grad)
    for name, buffer in model.named_buffers():
        found[f"buffer {name}"] = _bits(buffer)
    for name, module in model.named_modules():
        called = name or "the model"
        found[f"class of {called}"] = type(module).__name__
        found[f"training mode of {called}"] = module.training
        for kind, entries in vars(module).items():
            if kind.endswith("_hooks"):
                found[f"number of {kind.strip('_').replace('_', ' ')} of {called}"] = len(entries)
            else:
                found[f"attribute {kind} of {called}"] = ""
        if hasattr(module, "config"):
            found[f"attention implementation of {called}"] = module.config._attn_implementation
    for place, batch in enumerate(view.batches):
        found[f"labels of batch {place}"] = _bits(batch.labels)
        found |= {f"{key} of batch {place}": _bits(value) for key, value in batch.inputs.items()}
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two states, in words."""
    found = [f"{name} is gone" for name in before if name not in after]
    found += [f"{name} is new" for name in after if name not in before]
    for name, old in before.items():
        if name not in after or after[name] == old:
            continue
        new = after[name]
        if isinstance(old, bool | int | str | torch.dtype):
            found.append(f"{name} was {old}, is {new}")
        elif old is None:
            found.append(f"{name} was none, is there")
        else:
            found.append(f"{name} was changed" if new is not None else f"{name} was there, is none")
    return sorted(found, key=lambda said: "random state" in said or "gradients being" in said)


def _bits(tensor: Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return tensor.dtype, tensor.shape, flat.numpy().tobytes()
