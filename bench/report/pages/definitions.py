"""Definitions of methods and tasks, read from the source code of this installation without importing it."""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path


def definition(package: str, name: str) -> str:
    """The docstring of what is registered under ``name`` in ``package``; empty if it comes from elsewhere.

    package: ``methods`` or ``tasks``, whose modules register functions and classes by a decorator.
    """
    return _definitions(package).get(name, "")


@cache
def _definitions(package: str) -> dict[str, str]:
    """Docstrings by every name that is a string in a decorator: the registered name and those of variants."""
    found: dict[str, str] = {}
    spec = find_spec(package)  # a top-level package is only located
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    strings = (each for decorator in node.decorator_list for each in ast.walk(decorator))
                    names = [s.value for s in strings if isinstance(s, ast.Constant) and isinstance(s.value, str)]
                    found |= dict.fromkeys(names, ast.get_docstring(node) or "")
    return found
