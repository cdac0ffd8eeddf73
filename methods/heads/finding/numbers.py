"""Telling numbers that depend on the number of heads from others, by how a module's constructor sets them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import defaultdict
from functools import cache

from torch import nn

# Words in the names of numbers of heads, of widths, and of what is computed from them.
WORDS = {
    *("n", "num", "count", "head", "heads", "group", "groups", "kv", "rep", "dim", "dims", "size", "width", "hidden"),
    *("embed", "embd", "model", "inner", "features", "channels"),
}


def may_count_heads(classes: tuple[type, ...], attribute: str) -> bool:
    """Whether the number ``self.attribute`` may depend on the number of heads, for a class given with its ancestors.

    It does not if a constructor sets it from names that speak of neither heads nor widths, followed through variables
    and other attributes: a flag, a place, a rate. Names of one or two letters say nothing, so they may stand for heads;
    so may an attribute that no constructor sets.
    """
    sources = _sources(classes)
    if attribute not in sources:
        return True
    seen: set[str] = set()
    left = set(sources[attribute])
    while left:
        name = left.pop()
        if len(name) <= 2 or WORDS & set(name.lower().split("_")):
            return True
        seen.add(name)
        left |= sources.get(name, frozenset()) - seen
    return False


@cache
def _sources(classes: tuple[type, ...]) -> dict[str, frozenset[str]]:
    """The names that each variable and each attribute is computed from in the constructors of a class."""
    sources: dict[str, set[str]] = defaultdict(set)
    for ancestor in classes[: classes.index(nn.Module)]:
        constructor = vars(ancestor).get("__init__")
        if not inspect.isfunction(constructor):
            continue
        try:
            code = textwrap.dedent(inspect.getsource(inspect.unwrap(constructor)))
        except OSError:  # made without a source file
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for name in _names(target) - {"self"}:
                        sources[name] |= _names(node.value)
    return {name: frozenset(names) for name, names in sources.items()}


def _names(node: ast.AST) -> set[str]:
    """Names of variables and attributes in an expression, and strings, as ``getattr`` takes names too."""
    names: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            names.add(each.id)
        elif isinstance(each, ast.Attribute):
            names.add(each.attr)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            names.add(each.value)
    return names
