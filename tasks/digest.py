"""Digests of what a result depends on: values, files, and source code without its comments."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any


def digest_of(value: Any) -> str:
    """SHA-256 (hex) of a value made of dicts, lists, strings, numbers, booleans and None."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def digest_of_files(paths: Iterable[Path]) -> str:
    """SHA-256 (hex) over names and contents of ``paths``, in their order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(f"{path.name}:{hashlib.file_digest(file, 'sha256').hexdigest()};".encode())
    return digest.hexdigest()


@cache
def digest_of_source(*modules: ModuleType) -> str:
    """SHA-256 (hex) of the code of ``modules``; comments, docstrings and layout do not count."""
    return digest_of([_bare(inspect.getsource(module)) for module in modules])


def _bare(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and (
            ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
