"""The data type that a smaller model is saved in: that of the original's weights, though it is measured in float32."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from tasks.contract import Task
from tasks.models.checkpoint import cast, locate, saved_weights

HALVES = {"BF16": torch.bfloat16, "F16": torch.float16}  # by their names in safetensors


def half_of(task: Task, model: nn.Module) -> torch.dtype | None:
    """The type of 16 bits that all weights of the user's model have, if it is loaded in float32; None otherwise.

    A model that was trained here has weights of float32, and one that ``--dtype`` casts stays as that says. None also
    for a ``model`` that would not compute in that type alone: transformers keeps parts of it in float32, as those of T5
    in float16, and a checkpoint that it does not load would be without.
    """
    spec = task.spec
    if not spec.model or spec.finetune or spec.dtype:
        return None
    found = set()
    for path in _weight_files(locate(spec.model, spec.mirror)):
        with safe_open(path, "pt") as file:
            found |= {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    floats = {name for name in found if name.startswith(("F", "BF"))}
    half = HALVES.get(floats.pop()) if len(floats) == 1 else None
    return None if half is None or _keeps_float32(model, half) else half


def _keeps_float32(model: nn.Module, half: torch.dtype) -> bool:
    """Whether transformers loads weights of ``model`` in float32 where it loads the others in ``half``."""
    parts = set(getattr(model, "_keep_in_fp32_modules_strict", None) or ())
    parts |= set(getattr(model, "_keep_in_fp32_modules", None) or ()) if half == torch.float16 else set()
    return any(f".{part}." in f".{name}." for part in parts for name in model.state_dict())


def _weight_files(folder: Path) -> list[Path]:
    """The files that transformers reads the weights of a model from: one, or those that an index names."""
    whole, index = folder / SAFE_WEIGHTS_NAME, folder / SAFE_WEIGHTS_INDEX_NAME
    if whole.is_file() or not index.is_file():
        return [whole]
    return sorted({folder / name for name in json.loads(index.read_bytes())["weight_map"].values()})


@torch.no_grad()
def round_weights(model: nn.Module, half: torch.dtype | None) -> None:
    """Round the weights of ``model`` to numbers that ``half`` has; their own type stays.

    Only those that were trained or recovered change: the others come from a file in ``half``.
    """
    if half is not None:
        for weight in saved_weights(model):
            weight.copy_(weight.to(half))


@contextmanager
def saved_as(model: Any, half: torch.dtype | None) -> Iterator[None]:
    """Inside, what is saved of ``model`` is in ``half``, and so not what is computed from its configuration."""
    if half is None:
        yield
        return
    own = model.dtype
    cast(model, half)
    try:
        yield
    finally:
        cast(model, own)
