"""Definitions of methods and tasks, read from the source code of this installation without importing it."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path


def definition(package: str, name: str) -> str:
    """The docstring of what is registered under ``name`` in ``package``; empty if it comes from elsewhere.

    package: ``methods`` or ``tasks``, whose modules register functions and classes by a decorator.
    """
    return _definitions(package).get(name, "")


def task_definition(name: str, own_data: bool) -> str:
    """The docstring of a task; with a user's own data, without what it says of the data that are built in."""
    found = definition("tasks", name)
    return re.sub(r"; built in: .*?(?=\n\n|$)", ".", found, count=1, flags=re.DOTALL) if own_data else found


@cache
def _definitions(package: str) -> dict[str, str]:
    """Docstrings by registered name, which a decorator begins with, and by the names of its variants."""
    found: dict[str, str] = {}
    spec = find_spec(package)  # a top-level package is only located
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    names = (name for decorator in node.decorator_list for name in _names(decorator))
                    found |= dict.fromkeys(names, ast.get_docstring(node) or "")
    return found


def _names(decorator: ast.expr) -> list[str]:
    """The names that a decorator registers."""
    if not isinstance(decorator, ast.Call):
        return []
    variants = (each.value for each in decorator.keywords if each.arg == "variants")
    keys = (key for each in variants if isinstance(each, ast.Dict) for key in each.keys)
    return [
        each.value
        for each in (*decorator.args[:1], *keys)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
