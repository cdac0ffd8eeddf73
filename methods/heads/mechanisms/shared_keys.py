"""Layers that attend to the keys and values of an earlier layer instead of computing their own (Gemma 3n, Gemma 4).

The layer that stores its keys and values keeps all of them, as others read them; it loses query heads only. A layer
that reuses them takes those of its own remaining key/value heads. Both are exact for every input.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

SHARED = "shared_kv_states"  # argument with the keys and values, (B, heads, T, d_h) each, by type of layer


def stores(module: nn.Module) -> bool:
    """Whether other layers attend to the keys and values of the module."""
    return bool(vars(module).get("store_full_length_kv"))


def reuses(module: nn.Module) -> bool:
    """Whether the module attends to the keys and values of another layer."""
    return bool(vars(module).get("is_kv_shared_layer"))


def source_of(path: str, modules: Mapping[str, nn.Module]) -> str:
    """Path of the module whose keys and values the one at ``path`` attends to: mostly its own.

    It is the last one before that stores them for its type of layer. Empty if there is none.
    """
    module = modules[path]
    if not reuses(module):
        return path
    earlier = list(modules)[: list(modules).index(path)]
    same = [
        each
        for each in earlier
        if stores(modules[each]) and vars(modules[each]).get("layer_type") == vars(module).get("layer_type")
    ]
    return same[-1] if same else ""


def select_shared(module: Any, groups: Sequence[int]) -> None:
    """Make ``module`` attend to only the key/value heads ``groups`` of those that its source stores."""
    if not hasattr(module, "shared_groups"):
        module.register_forward_pre_hook(_select, with_kwargs=True)
    module.shared_groups = list(groups)


def _select(module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
    states = bound.arguments[SHARED][module.layer_type]
    bound.arguments[SHARED] = {module.layer_type: tuple(each[:, module.shared_groups] for each in states)}
    return bound.args[1:], bound.kwargs
