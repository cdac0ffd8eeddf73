"""Finding layers that attend to the keys and values of an earlier layer instead of computing their own."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn


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
