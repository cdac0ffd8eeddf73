"""The part of a cell's key that stands for code. Modules are digested by name: what measures is not imported."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from typing import Any

from torch import nn

from bench.suites.parse import MethodSpec
from methods import METHODS
from methods.contract.method import RECOVER
from methods.heads import HeadMap, UnsupportedArchitecture, find_mlps
from methods.heads.mechanisms.every import modules_used
from tasks.digest import digest_of_source, modules_below, source_of

# Code that the result of every method passes through.
SHARED = (
    "methods.contract.schedule",
    "methods.contract.view",
    "methods.contract.choice",
    "methods.contract.choosing",
    "bench.measure.view",
    "bench.measure.evaluate",
    "bench.measure.result",
    "tasks.data.calibration",
    "tasks.models.seeded",
    "tasks.outcomes",
    "tasks.seeds",
)
NOT_A_METHODS_OWN = ("methods.heads", "methods.contract")  # in the shared part of a key, or without effect
# Code of methods.heads that comes to nothing but a description, which is in the key: of heads and neurons found.
FINDING = {
    f"methods.heads.finding.{name}"
    for name in (
        *("layout", "layouts", "match", "mlps", "numbers", "shared_keys", "site", "sites", "towers", "units", "verify"),
        "wide_norms",
    )
}
# Of these packages, code counts only where it is used; "every" lists them.
WHERE_USED = ("methods.heads.mechanisms.", "methods.heads.orders.")
ALWAYS_USED = ("methods.heads.mechanisms.mechanism", "methods.heads.orders.fused")


@cache
def shared_code() -> str:
    """Digest of the code that the result of every method passes through, on any model."""
    heads = [name for name in modules_below("methods.heads") if name not in FINDING and not _where_used(name)]
    return digest_of_source(*heads, *ALWAYS_USED, *SHARED)


def heads_part(model: nn.Module, heads: HeadMap) -> dict[str, Any]:
    """The part of a key that belongs to a model's heads and neurons: what was found, and code for its peculiarities.

    So code that finds them, or that other models need, changes no key as long as the same is found.
    """
    try:
        mlps = [asdict(mlp) for mlp in find_mlps(model)]
    except UnsupportedArchitecture:  # a method that removes neurons says so
        mlps = []
    used: set[str] = set().union(*(_reached(name, _where_used) for name in modules_used(heads.sites)))
    return {"heads": heads.description, "neurons": mlps, "code": digest_of_source(*sorted(used))}


def _where_used(name: str) -> bool:
    return name.startswith(WHERE_USED)


def method_part(spec: MethodSpec, training: float) -> list[Any]:
    """The part of a key that belongs to the method: its name, options and code and, if it trains, how.

    Code that recovers weights, or makes choices of heads and neurons, is part of it only where that is done.
    """
    method = METHODS[spec.name]
    own = [spec.name, spec.options, digest_of_source(*modules_of(method.function.__module__))]
    if RECOVER.name in spec.options or method.splits_budget(spec.options):
        own.append(digest_of_source(*modules_of("methods.recovery.choosing")))
    return [*own, training, digest_of_source("tasks.models.train")] if method.trains else own


@cache
def modules_of(module: str) -> tuple[str, ...]:
    """``module`` and all that it imports, directly or not, from its own package and from ``methods``.

    ``methods/__init__.py``, ``methods.contract`` and ``methods.heads`` are left out: the shared part of a key has what
    counts of them.
    """
    packages = (module.partition(".")[0], "methods")

    def belongs(name: str) -> bool:
        shared = name == "methods" or any(name == part or name.startswith(f"{part}.") for part in NOT_A_METHODS_OWN)
        return name.partition(".")[0] in packages and not shared

    return tuple(sorted(_reached(module, belongs)))


def _reached(module: str, belongs: Callable[[str], bool]) -> set[str]:
    """``module`` and all that it imports, directly or not, as far as it ``belongs``."""
    found, queue = {module}, [module]
    while queue:
        for name in _imported(queue.pop()):
            if belongs(name) and name not in found and source_of(name):
                found.add(name)
                queue.append(name)
    return found


def _imported(module: str) -> Iterator[str]:
    """Full names that ``module`` imports; some are modules, others are functions or values in one."""
    spec = importlib.util.find_spec(module)
    for node in ast.walk(ast.parse(source_of(module))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = importlib.util.resolve_name("." * node.level, spec.parent if spec else "") if node.level else ""
            name = ".".join(filter(None, (package, node.module)))
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names)
