"""Finding tasks of lm-eval, and loading them with their documents."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
from lm_eval.tasks import TaskManager

from tasks.data.location import resolve
from tasks.digest import digest_of
from tasks.errors import TaskError, first_line
from tasks.harness import data
from tasks.harness.files import FOLDER, LOOKED_UP
from tasks.harness.prepared import (
    ACCURACY,
    LIKELIHOODS,
    DocumentsMissing,
    PreparedTask,
    accuracy_metric,
    silenced,
)
from tasks.harness.trust import check_code, confine_templates

OWN = "headbench_own_texts"  # perplexity of the user's texts


def names_in(name_or_folder: str) -> list[str]:
    """Sorted names of the tasks in a folder; a name that is not a folder is a task. Raises TaskError for no task.

    The name of a task is one, too, where a folder of that name, such as one with its documents, has no task file.
    """
    if not Path(name_or_folder).is_dir():
        return [name_or_folder]
    with silenced():
        names = sorted(TaskManager(include_path=name_or_folder, include_defaults=False).all_subtasks)
        if not names and name_or_folder in _manager([name_or_folder], []).all_subtasks:
            return [name_or_folder]
    if not names:
        raise TaskError(f"{name_or_folder}: no task file (YAML with task: NAME) in this folder")
    return names


def load(
    names: Sequence[str], folders: Sequence[str | Path], mirror: str, own: Mapping[str, Any], trust: bool
) -> dict[str, PreparedTask]:
    """The tasks ``names``: ours, lm-eval's, or those of task files in ``folders``. For the rest see ``Harness``."""
    if not trust:
        check_code(folders)
    confine_templates()
    with silenced():
        manager = _manager(names, folders)
        tasks = {name: _load(manager, name, mirror, own) for name in names}
    for name, task in tasks.items():
        metrics = list(task.aggregation())
        if task.is_perplexity and LIKELIHOODS not in metrics:
            raise TaskError(
                f"{name}: {LIKELIHOODS} is none of its metrics ({', '.join(metrics)}): add it to metric_list, as texts "
                "are compared by it"
            )
        if not task.is_perplexity and not accuracy_metric(metrics):
            raise TaskError(f"{name}: none of its metrics ({', '.join(metrics)}) is one of {', '.join(ACCURACY)}")
    return tasks


def _load(manager: TaskManager, name: str, mirror: str, own: Mapping[str, Any]) -> PreparedTask:
    if name not in manager.all_subtasks:
        if name in manager.all_tasks:
            raise TaskError(f"{name}: a group of tasks: name the tasks of it that you want")
        near = difflib.get_close_matches(name, manager.all_subtasks, n=1)
        raise TaskError(f"{name}: lm-eval has no such task" + (f"; did you mean {near[0]}?" if near else ""))
    found = manager.task_index[name]
    config = found.cfg or {}
    if "class" in config:
        raise TaskError(f"{name}: a task with its own class, which cannot be reused for several models")
    place = config.get("dataset_path") or ""
    override: dict[str, Any] = {}
    if name == OWN:
        override = {"dataset_kwargs": dict(own)}
    elif name in data.LOCAL and (path := data.LOCAL[name].find_plain(name, place, mirror)):
        override = {
            "custom_dataset": data.local,
            "dataset_kwargs": {"path": str(path), "task": name},
            "training_split": None,  # only used for few-shot prompts
        }
    elif place and mirror and (copy := resolve(place, mirror)) != Path(place):
        kwargs = {**(config.get("dataset_kwargs") or {}), "cache_dir": str(_cache_for(copy))}
        override = {"dataset_path": str(copy), "dataset_kwargs": kwargs}
    # A group is lm-eval's way to load one of its tasks with some fields changed.
    member = {"task": name, "class": PreparedTask, **override}
    try:
        return manager.load({"group": "chosen", "task": [member]})["tasks"][name]
    except TaskError:
        raise
    except DocumentsMissing as error:
        folder = f", or a folder {' or '.join(data.LOCAL[name].names(name))} there" if name in data.LOCAL else ""
        raise TaskError(
            f"{name}: its documents ({place}) cannot be loaded ({error}); "
            f"give a local copy, for instance as {place} in a folder given by --mirror DIR{folder}"
        ) from error
    except Exception as error:  # of any kind: what the file says is used in many places
        told = f"{type(error).__name__}: {first_line(error)}"
        raise TaskError(f"{name}: lm-eval cannot use {found.yaml_path or 'its file'} ({told})") from error


def _cache_for(folder: Path) -> Path:
    """Where datasets keeps what it made of ``folder``: another place when a file there changes, which it overlooks."""
    files = [(str(path.relative_to(folder)), path.stat()) for path in sorted(folder.rglob("*")) if path.is_file()]
    state = digest_of([[name, found.st_size, found.st_mtime_ns] for name, found in files])
    return Path(datasets.config.HF_DATASETS_CACHE) / f"headbench-{state[:16]}"


def _manager(names: Sequence[str], folders: Sequence[str | Path]) -> TaskManager:
    """An index with the tasks ``names``; one of all tasks of lm-eval takes seconds to make."""
    manager = TaskManager(include_path=[*folders, *LOOKED_UP], include_defaults=False)
    return manager if set(names) <= set(manager.all_subtasks) else TaskManager(include_path=[*folders, FOLDER])
