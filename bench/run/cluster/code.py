"""Which code a process runs, to compare with that of another machine. Imports nothing that takes time."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from bench.records.provenance import PACKAGES, version_of

OWN = ("bench", "methods", "tasks")
PLUGINS = ("headbench.methods", "headbench.tasks")  # groups of entry points
Code = Mapping[str, str]  # a version by the name of what runs, with a digest where there is source code to read


@cache
def code() -> Code:
    """What this process runs: Python, the packages that can change a result, headbench's own code and plugins."""
    found = {"Python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}}
    files = (file for name in OWN for place in _folders(name) for file in sorted(Path(place).rglob("*.py")))
    found["headbench"] += f" with code {_digest(files)}"
    for group in PLUGINS:
        for entry in entry_points(group=group):
            found[f"the plugin {entry.name}"] = f"{entry.dist.version if entry.dist else ''} {_plugin(entry.module)}"
    return found


def difference(there: Code, here: Code) -> str:
    """The first thing that this machine has and the other does not have alike, in words; empty where there is none."""
    for name, version in here.items():
        if (other := there.get(name, "")) != version:
            return f"it has {name} {other or '(none)'}, this machine {version or '(none)'}"
    return ""


def _folders(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec else []


def _plugin(module: str) -> str:
    """Digest of the file of a plugin; empty where it has none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return ""
    return _digest([Path(spec.origin)]) if spec and spec.origin and Path(spec.origin).is_file() else ""


def _digest(files) -> str:
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.name}:{len(content)};".encode() + content)
    return digest.hexdigest()[:12]
