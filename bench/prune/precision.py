"""The data type that a smaller model is saved in: that of the original's weights, though it is measured in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from tasks.contract import Task
from tasks.models.checkpoint import locate

WEIGHTS = "model*.safetensors"  # as transformers names weights, in one file or several
HALVES = {"BF16": torch.bfloat16, "F16": torch.float16}  # by their names in safetensors


def half_of(task: Task) -> torch.dtype | None:
    """The type of 16 bits that all weights of the user's model have, if it is loaded in float32; None otherwise.

    A model that was trained here has weights of float32, and one that ``--dtype`` casts stays as that says.
    """
    spec = task.spec
    if not spec.model or spec.finetune or spec.dtype:
        return None
    found = set()
    for path in locate(spec.model, spec.mirror).glob(WEIGHTS):
        with safe_open(path, "pt") as file:
            found |= {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    floats = {name for name in found if name.startswith(("F", "BF"))}
    return HALVES.get(floats.pop()) if len(floats) == 1 else None


@torch.no_grad()
def round_weights(model: nn.Module, half: torch.dtype | None) -> None:
    """Round the weights of ``model`` to numbers that ``half`` has; their own type stays.

    Only those that were trained or recovered change: the others come from a file in ``half``.
    """
    if half is not None:
        for weight in _saved(model):
            weight.copy_(weight.to(half))


@contextmanager
def cast(model: Any, half: torch.dtype | None) -> Iterator[None]:
    """Inside, what is saved of ``model`` is in ``half``, and so not what is computed from its configuration."""
    own = model.dtype
    _cast(model, half or own)
    try:
        yield
    finally:
        _cast(model, own)


def _cast(model: Any, dtype: torch.dtype) -> None:
    if model.dtype != dtype:
        for weight in _saved(model):
            weight.data = weight.data.to(dtype)
        model.config.dtype = dtype


def _saved(model: nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers with a place in the state dict, shared ones once, without those of whole numbers."""
    saved = model.state_dict().keys()
    named = (*model.named_parameters(), *model.named_buffers())
    return [tensor for name, tensor in named if name in saved and tensor.is_floating_point()]
