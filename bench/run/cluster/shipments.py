"""Models and data on the driver's side: to nodes that lack them, and trained models back from where they were made."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ray

from bench.records.errors import InputError
from bench.run.cluster.contents import Content, Files, digest_of_content, files_in, read, trained, write
from bench.suites.cells import open_task
from bench.suites.needs import needs_of_task
from tasks.data.location import resolve, short_name
from tasks.data.packages import PREFIX
from tasks.models.cache import Cache, damage, identity
from tasks.models.seeded import SeededTask
from tasks.models.vocabularies import model_files
from tasks.request import TaskSpec

FIELDS = {"model": "model", "data": "data", **{f"{split} data": split for split in ("train", "validation", "test")}}


class Shipments:
    """What ``jobs`` read: on this machine and, once a node lacks it, in the object store.

    root: the driver's cache of trained models.
    """

    def __init__(self, jobs: Iterable[Any], root: Path):
        self._cache = Cache(root)
        self._uses = Counter(map(self.model, jobs))
        self._sent: dict[str, Files] = {}
        self._damaged: set[str] = set()

    def model(self, job: Any) -> str:
        """The folder in a cache of the model that ``job`` needs or makes; empty where its task trains none."""
        return _folder(job.cell.task, job.cell.seed)

    def here(self, model: str) -> bool:
        """Whether the driver has it, to send: a node makes one of its own that is not as it was made."""
        return bool(model) and model not in self._damaged and self._cache.path(model).is_dir()

    def identity(self, model: str) -> str:
        """What the driver's model was built as, which nodes compare theirs with; empty for no model."""
        return identity(self._cache.path(model)) if model else ""

    def whole(self, model: str) -> bool:
        """Whether the driver has it as it was made, as where its cache is that of the nodes."""
        return not damage(self._cache.path(model))

    def contents(self, job: Any) -> tuple[Content, ...]:
        """The user's own files that the task of ``job`` reads."""
        return contents_of(job.cell.task)

    def sent(self, *keys: str) -> Mapping[str, Files]:
        """What is in the object store of these models and contents."""
        return {key: self._sent[key] for key in keys if key in self._sent}

    def send(self, key: str, contents: Iterable[Content]) -> None:
        """Put a trained model, or the one of ``contents`` with this key, in the object store.

        A model that is not as it was made is named and not sent, and not ``here`` any more. Raises InputError for
        content that was changed since the run began.
        """
        if key in self._sent:
            return
        content = next((content for content in contents if content.key == key), None)
        if content and digest_of_content(*content.place) != content.digest:
            raise InputError(f"{content.path}: it was changed since this run began; run the command again")
        folder = self._cache.path(key)
        if not content and (fault := damage(folder)):
            print(f"headbench: {folder}: {fault}: not sent; nodes make the model again", file=sys.stderr)
            self._damaged.add(key)
            return
        found = read(*(content.place if content else trained(folder)))
        self._sent[key] = {name: ray.put(found.pop(name)) for name in list(found)}

    def keep(self, model: str, files: Files) -> None:
        """Put a model that a node has trained in the cache; nothing where the node could not send it."""
        if files:
            self._cache.folder(model, lambda empty: write(files, empty))
            self._damaged.discard(model)

    def used(self, job: Any) -> None:
        """``job`` has ended: a model that no other needs leaves the object store."""
        model = self.model(job)
        self._uses[model] -= 1
        if not self._uses[model]:
            self._sent.pop(model, None)


@cache
def _folder(task: TaskSpec, seed: int) -> str:
    opened = open_task(task)
    if not isinstance(opened, SeededTask) or not opened.trains:
        return ""
    return opened.place(seed, Cache(Path())).name


@cache
def contents_of(task: TaskSpec) -> tuple[Content, ...]:
    """The user's own files that ``task`` reads: nodes get ids from the hub, and packages are installed there."""
    found = []
    for need in needs_of_task(task) if isinstance(open_task(task), SeededTask) else ():
        if need.kind in FIELDS and not need.name.startswith(PREFIX):
            place = resolve(need.name, need.mirror).absolute()
            if place.exists():
                found.append(_content(FIELDS[need.kind], need.name, place))
    folders = (name for name in dict.fromkeys(task.harness_tasks) if Path(name).is_dir())
    return (*found, *(_content("harness_tasks", folder, Path(folder).absolute()) for folder in folders))


def _content(field: str, given: str, place: Path) -> Content:
    if field == "model":
        names = tuple(path.relative_to(place).as_posix() for path in model_files(place))
    else:
        names = files_in(place)  # none of what is a file
    content = Content(field, given, str(place), short_name(given), names, "")
    return replace(content, digest=digest_of_content(*content.place))
