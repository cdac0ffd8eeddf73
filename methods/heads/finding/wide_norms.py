"""Finding norms of queries or keys over all heads at once."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

from torch import nn


def wide_norms(module: nn.Module) -> dict[str, str]:
    """Names of the children of ``module`` that are given all outputs of another child, and of those others.

    They are found in the module's code as ``self.norm(self.projection(...))``; a norm within each head is given a view
    of the outputs by heads instead. Children that change no output (dropout in evaluation mode, Identity) are left out.
    """
    return {
        outer: inner
        for outer, inner in _applied_to(type(module).forward).items()
        if not isinstance(module._modules.get(outer), nn.Dropout | nn.Identity | None)
    }


@cache
def _applied_to(forward: Callable[..., Any]) -> dict[str, str]:
    """For each attribute of ``self`` that ``forward`` calls on the result of another alone: the name of that other."""
    try:
        code = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(forward))))
    except OSError:  # made without a source file
        return {}
    given: dict[str, set[str | None]] = defaultdict(set)
    for node in ast.walk(code):
        if isinstance(node, ast.Call) and (name := _own(node.func)):
            first = node.args[0] if len(node.args) == 1 and not node.keywords else None
            given[name].add(_own(first.func) if isinstance(first, ast.Call) else None)
    return {name: inner for name, (inner, *others) in given.items() if inner and not others}


def _own(node: ast.AST) -> str | None:
    """The name of an attribute of ``self``; None for anything else."""
    owned = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if owned else None  # type: ignore[attr-defined]
