"""Digests of what results depend on: values, files, and source code without its comments."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tasks.same_results import ENTRIES
from tasks.source_text import bare

SAME_RESULTS = {each.now: each.then for each in ENTRIES}


def digest_of(value: Any) -> str:
    """SHA-256 (hex) of a value made of dicts, lists, strings, numbers, booleans and None."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def digest_of_files(paths: Iterable[Path]) -> str:
    """SHA-256 (hex) over names and contents of ``paths``, in their order.

    A file is read once in a process, and again after it was changed or replaced.
    """
    digest = hashlib.sha256()
    for path in paths:
        found = path.stat()
        content = _digest_of_file(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        digest.update(f"{path.name}:{content};".encode())
    return digest.hexdigest()


@cache
def _digest_of_file(path: Path, *state: int) -> str:
    """SHA-256 (hex) of the file at ``path``; state: numbers that change with its content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def digest_of_source(*modules: str) -> str:
    """SHA-256 (hex) of the code of the named modules, without comments, docstrings and layout.

    That of earlier code, where the present code was shown to give the same results.

    Raises ModuleNotFoundError for a name without source code.
    """
    sources = {name: source_of(name) for name in modules}
    if missing := [name for name, source in sources.items() if not source]:
        raise ModuleNotFoundError(f"no source code for {', '.join(missing)}")
    found = digest_of([bare(source) for source in sources.values()])
    return SAME_RESULTS.get(found, found)


def source_of(module: str) -> str:
    """Source code of a module, which is not imported (its parent packages are); empty if there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # its parent is not a package: the name is that of a function or a value
        return ""
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return ""
    return importlib.util.decode_source(Path(spec.origin).read_bytes())  # in the encoding that it names


def modules_below(package: str) -> list[str]:
    """Names of all modules with code in ``package`` and its subpackages, sorted."""
    folder = Path(importlib.import_module(package).__path__[0])
    paths = [path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py")]
    return sorted(".".join((package, *path.parts)) for path in paths if path.name != "__init__")
