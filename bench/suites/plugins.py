"""Find what can be run: every module in methods/ and tasks/, and what other packages add by entry point."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

import transformers

import methods
import tasks
from bench.records.errors import InputError
from methods.heads import load_pruned
from methods.heads.surgery.save import PRUNING
from tasks.models.checkpoint import LOADERS


def quiet_libraries() -> None:
    """Keep bars and remarks of the libraries below us out of our own progress."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(logging.ERROR)


@cache
def load_plugins() -> None:
    """Fill ``methods.METHODS`` and ``tasks.contract.TASKS``, and let tasks load pruned checkpoints.

    Raises InputError, naming the package, where a module of another package does not load.
    """
    LOADERS[PRUNING] = load_pruned
    for package, group in ((methods, "headbench.methods"), (tasks, "headbench.tasks")):
        _import_all(package)
        for entry in entry_points(group=group):
            try:
                entry.load()
            except Exception as error:
                owner = entry.dist.name if entry.dist else entry.value
                raise InputError(f"entry point {entry.name!r} ({owner}) does not load: {error}") from error


def _import_all(package: ModuleType) -> None:
    for module in pkgutil.iter_modules(package.__path__):
        if not module.ispkg:
            importlib.import_module(f"{package.__name__}.{module.name}")
