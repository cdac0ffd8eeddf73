"""Trained models on the driver's side: to nodes that lack them, and back from the node that trained one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import ray

from bench.run.cluster.remote import Files, read, write
from bench.suites.cells import open_task
from tasks.models.cache import Cache
from tasks.models.seeded import SeededTask
from tasks.request import TaskSpec


class Models:
    """The trained models that ``jobs`` need: in the cache at ``root`` and, once a node lacks one, the object store."""

    def __init__(self, jobs: Iterable[Any], root: Path):
        self._cache = Cache(root)
        self._uses = Counter(map(self.of, jobs))
        self._files: dict[str, Files] = {}

    def of(self, job: Any) -> str:
        """The folder in a cache of the model that ``job`` needs or makes; empty where its task trains none."""
        return _folder(job.cell.task, job.cell.seed)

    def here(self, model: str) -> bool:
        """Whether the driver has it."""
        return bool(model) and self._cache.path(model).is_dir()

    def sent(self, model: str) -> Files | None:
        """Its files in the object store; None where no node has asked for them."""
        return self._files.get(model)

    def send(self, model: str) -> None:
        """Put its files in the object store."""
        if model not in self._files:
            content = read(self._cache.path(model))
            self._files[model] = {name: ray.put(content.pop(name)) for name in list(content)}

    def keep(self, model: str, files: Files) -> None:
        """Put a model that a node has trained in the cache."""
        self._cache.folder(model, lambda empty: write(files, empty))

    def used(self, job: Any) -> None:
        """``job`` has ended: a model that no other needs leaves the object store."""
        model = self.of(job)
        self._uses[model] -= 1
        if not self._uses[model]:
            self._files.pop(model, None)


@cache
def _folder(task: TaskSpec, seed: int) -> str:
    opened = open_task(task)
    if not isinstance(opened, SeededTask) or not opened.trains:
        return ""
    return opened.place(seed, Cache(Path())).name
