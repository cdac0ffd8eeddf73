"""Which code a process runs, to compare with that of another machine. Imports nothing that takes time."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from bench.records.provenance import PACKAGES, version_of

OWN = ("bench", "methods", "tasks")
PLUGINS = ("headbench.methods", "headbench.tasks")  # groups of entry points
READ = (".py", ".yaml")  # code, and task files of lm-eval
Code = Mapping[str, str]  # a version by the name of what runs, with a digest where there is source code to read


@cache
def code() -> Code:
    """What this process runs: Python, the packages that can change a result, headbench's own code and plugins."""
    found = {"Python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}}
    found["headbench"] += f" with code {_digest([place for name in OWN for place in _folders(name)])}"
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
    """Digest of the package that the module of a plugin is in, or of its file; empty where there is none.

    Of namespace packages, which other distributions are in too, it is the first one below that is not.
    """
    parts = module.split(".")
    for number in range(1, len(parts) + 1):
        try:
            spec = importlib.util.find_spec(".".join(parts[:number]))
        except (ImportError, ValueError):
            return ""
        if spec and spec.origin and Path(spec.origin).is_file():
            return _digest(spec.submodule_search_locations or [spec.origin])
    return ""


def _digest(places: Iterable[str]) -> str:
    """Digest of files, and of the code and task files in folders by their paths there."""
    digest = hashlib.sha256()
    for place in map(Path, places):
        files = [place] if place.is_file() else sorted(each for each in place.rglob("*") if each.suffix in READ)
        for file in files:
            content = file.read_bytes()
            name = file.name if file == place else file.relative_to(place).as_posix()
            digest.update(f"{name}:{len(content)};".encode() + content)
    return digest.hexdigest()[:12]
