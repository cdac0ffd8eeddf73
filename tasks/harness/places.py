"""Where the documents of lm-eval's tasks come from, found without loading them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lm_eval.tasks import TaskManager

from tasks.data.location import resolve
from tasks.harness.data import LOCAL
from tasks.harness.files import FOLDER, LM_EVAL
from tasks.harness.prepared import silenced


def hub_id(task: str) -> str:
    """The id on the hub of the documents of ``task``, or what else its file gives; empty if there is none."""
    return _settings(task).get("dataset_path") or ""


def copy_of(task: str, mirror: str) -> Path | None:
    """The copy in ``mirror`` of the documents of ``task``; None if there is none."""
    place = hub_id(task)
    if task in LOCAL:
        return LOCAL[task].find(task, place, mirror)
    path = resolve(place, mirror)
    return path if place and path.exists() else None


def in_words(task: str) -> str:
    """Where a copy of the documents of ``task`` can be put, after ``give``."""
    folder = f", or a folder {' or '.join(LOCAL[task].names(task))} there" if task in LOCAL else ""
    return f"a local copy, for instance as {hub_id(task)} in a folder given by --mirror DIR{folder}"


def _settings(task: str) -> Mapping[str, Any]:
    folder = LM_EVAL / LOCAL[task].folder if task in LOCAL else FOLDER
    found = _index(folder).task_index.get(task)
    if found is None:
        found = _index(None).task_index.get(task)
    return found.cfg or {} if found is not None else {}


@cache
def _index(folder: Path | None) -> TaskManager:
    """The tasks in ``folder``; all of lm-eval, which takes seconds, for None."""
    with silenced():
        return TaskManager(include_path=[str(folder)], include_defaults=False) if folder else TaskManager()
