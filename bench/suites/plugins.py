"""Find what can be run: every module in methods/ and tasks/, and the plugins of other packages."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import transformers

import methods
import tasks
from bench.records.errors import InputError, unknown
from methods import METHODS
from methods.contract.origin import at
from methods.heads import UnsupportedArchitecture, load_pruned, save_pruned
from methods.heads.surgery.save import PRUNING
from tasks.contract import TASKS
from tasks.errors import TaskError
from tasks.models.checkpoint import FORMATS, Format

OWN = {Path(methods.__path__[0]).parent / name for name in ("bench", "methods", "tasks")}  # folders
GROUPS = {"method": "headbench.methods", "task": "headbench.tasks"}  # of entry points


class Fault(NamedTuple):
    """A plugin that does not load."""

    kind: str  # method or task
    message: str  # one line that names the package


def quiet_libraries() -> None:
    """Keep progress bars and warnings of libraries out of our own output."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(logging.ERROR)


@cache
def load_plugins() -> tuple[Fault, ...]:
    """Fill ``methods.METHODS`` and ``tasks.contract.TASKS``, and let tasks read and write pruned checkpoints.

    Returns the plugins that do not load. Nothing of them is registered; everything else works. Raises InputError if a
    file in ``methods`` or ``tasks`` does not load: there it may be one of headbench's own methods that is missing.
    """
    FORMATS[PRUNING] = Format(load_pruned, save_pruned)
    _import_all(methods)
    _import_all(tasks)
    faults = []
    for kind, group in GROUPS.items():
        for entry in entry_points(group=group):
            known = METHODS.keys() | TASKS.keys()
            try:
                entry.load()
            except (Exception, SystemExit) as error:
                for name in (METHODS.keys() | TASKS.keys()) - known:
                    METHODS.pop(name, None)
                    TASKS.pop(name, None)
                message = f"entry point {entry.name!r} of package {_package(entry)} does not load: {_said(error)}"
                faults.append(Fault(kind, message))
    return tuple(faults)


def unregistered(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a method or task that is not among ``known``, with the plugins that do not load."""
    return unknown(kind, name, known, [fault.message for fault in load_plugins() if fault.kind == kind])


@contextmanager
def task_plugin_fault(name: str, module: str) -> Iterator[None]:
    """Turn errors of a task's adapter inside into an InputError that names its package, if it is not headbench's own.

    name: of the adapter. module: that it is in.

    Errors in headbench's own modules, and errors that already say in one line what is wrong, are left as they are.
    """
    try:
        yield
    except (InputError, TaskError, UnsupportedArchitecture):
        raise
    except Exception as error:
        top = module.partition(".")[0]
        if top in (methods.__name__, tasks.__name__):
            raise
        entries = [entry for group in GROUPS.values() for entry in entry_points(group=group)]
        package = next((_package(entry) for entry in entries if entry.module.partition(".")[0] == top), top)
        raise InputError(f"task {name!r} of package {package}: {_said(error)}") from error


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value


def _said(error: BaseException, file: str = "") -> str:
    """What went wrong, and in which line of ``file`` or, without it, outside of headbench, in one line."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if (frame.filename == file if file else _is_foreign(frame.filename))
    ]
    where = at(frames[-1] if frames else None)
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}{where}"


def _is_foreign(file: str) -> bool:
    return not file.startswith("<") and not OWN.intersection(Path(file).parents)


def _import_all(package: ModuleType) -> None:
    for found in pkgutil.iter_modules(package.__path__):
        if found.ispkg:
            continue
        name = f"{package.__name__}.{found.name}"
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            spec = found.module_finder.find_spec(name, None)
            file = (spec and spec.origin) or name
            raise InputError(f"{file} does not load: {_said(error, file)}") from error
