"""Telling which layout an attention module has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from torch import nn

from methods.heads.finding.layout import Layout, UnsupportedArchitecture
from methods.heads.finding.layouts import LAYOUTS


def match_layout(path: str, modules: dict[str, nn.Module]) -> Layout | None:
    """The layout of the module at ``path``; None if it is no attention module, or one of linear attention.

    Raises UnsupportedArchitecture if the names match a layout that holds only for classes other than this one.
    """
    children = modules[path]._modules  # most modules have no child with the name of a query, which is quickly seen
    fitting = [
        layout
        for layout in LAYOUTS
        if layout.query in children and all(each in modules for each in layout.projections(path, modules).values())
    ]
    if not fitting or is_linear_attention(modules[path]):
        return None
    name = type(modules[path]).__name__
    for layout in fitting:
        if not layout.classes or name in layout.classes:
            return layout
    raise UnsupportedArchitecture(
        f"{name} at {path} has the projections of {', '.join(fitting[0].classes)}, but was not checked to work the "
        "same way; if it does, add its name to methods/heads/finding/layouts.py"
    )


def is_linear_attention(module: nn.Module) -> bool:
    """Whether the heads of ``module`` keep a state instead of attending to tokens: these are left as they are.

    transformers hands such a module its state as ``cache_params``, except for MiniMax's lightning attention.
    """
    return "cache_params" in arguments_of(type(module).forward) or "LightningAttention" in type(module).__name__


@cache
def arguments_of(forward: Callable[..., Any]) -> frozenset[str]:
    """Names of the arguments of a class's forward, ``self`` included."""
    return frozenset(inspect.signature(forward).parameters)
