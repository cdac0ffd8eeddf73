"""What a suite needs that does not come with headbench: where each thing is, and how to get what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.records.errors import InputError, InputErrors
from bench.suites import hub
from bench.suites.suite import Suite
from tasks.contract import TASKS
from tasks.data.location import file_of, is_path, local, resolve
from tasks.data.packages import PREFIX
from tasks.errors import TaskError
from tasks.language_model import LanguageModel
from tasks.models.checkpoint import locate
from tasks.models.seeded import SeededTask
from tasks.request import TaskSpec


class Need(NamedTuple):
    """A model, a data set or the documents of a task of lm-eval; equal ones are needed once."""

    kind: str
    name: str
    mirror: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def needs_of(suite: Suite) -> list[Need]:
    """What ``suite`` needs, without looking for it. Adapters of other packages find their models themselves."""
    own = [spec for spec in suite.tasks if issubclass(TASKS[spec.task], SeededTask)]
    return list(dict.fromkeys(need for spec in own for need in needs_of_task(spec)))


def needs_of_task(spec: TaskSpec) -> Iterator[Need]:
    """What a task whose adapter is ours needs."""
    if spec.model:
        yield Need("model", spec.model, spec.mirror)
    if isinstance(spec.source, str):
        yield from [Need("data", spec.source, spec.mirror)] if spec.source else []
    else:
        yield from (Need(f"{split} data", file, spec.mirror) for split, file in spec.source.items())
    if issubclass(TASKS[spec.task], LanguageModel):
        names = [name for name in spec.harness_tasks if not Path(name).is_dir()]
        yield from (Need("documents", name, spec.mirror) for name in names)


def look_for(suite: Suite) -> dict[Need, hub.Found]:
    """Where everything is that ``suite`` needs.

    Nothing is loaded or downloaded; an id that is nowhere here is asked of the hub, unless that cannot be reached.
    Raises InputError that names everything missing, with a way to get each, and what was found.
    """
    found: dict[Need, hub.Found] = {}
    faults = []
    for need in needs_of(suite):
        try:
            found[need] = _found(need)
        except TaskError as error:
            faults.append(str(error))
    if not faults and (fault := hub.no_room(sum(place.download for place in found.values()))):
        raise InputError(f"what suite {suite.name} needs from the hub: {fault}")
    if len(faults) == 1:
        raise InputError(faults[0])
    if faults:
        here = [f"found: {need_in_words(need, place)}" for need, place in found.items()]
        raise InputErrors(f"{len(faults)} things that suite {suite.name} needs are missing", [*faults, *here])
    return found


def needs_in_words(suite: Suite) -> str:
    """What ``suite`` needs, in words, without looking for it."""
    kinds: dict[str, list[str]] = {}
    for need in needs_of(suite):
        gated = " (with a licence to accept)" if need.kind == "model" and need.name.startswith(hub.GATED) else ""
        kinds.setdefault(need.kind, []).append(need.name + gated)
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items()) or "nothing: all is built in"


def need_in_words(need: Need, found: hub.Found) -> str:
    """A need and where it is, in a line."""
    size = f", {found.download / hub.GB:.1f} GB to download" if found.download else ""
    return f"{need}: {found.place}{size}"


def _found(need: Need) -> hub.Found:
    """Where ``need`` is. Raises TaskError."""
    if need.kind == "model":
        return _model(need)
    if need.kind == "documents":
        return _documents(need)
    if need.kind != "data":
        return hub.Found(str(file_of(need.name, need.kind.removesuffix(" data"))))
    if path := local(need.name, need.mirror):
        return hub.Found(str(path))
    found = hub.find("dataset", need.name)
    if found.fault:
        raise TaskError(
            f"{need.name}: no such file or folder, {found.fault}; give a local path, or --mirror DIR with a copy"
        )
    return found


def _model(need: Need) -> hub.Found:
    if need.name.startswith(PREFIX) or is_path(need.name) or resolve(need.name, need.mirror).exists():
        return hub.Found(str(locate(need.name, need.mirror)))
    found = hub.find("model", need.name)
    if found.fault:
        raise TaskError(f"{need.name}: no such folder, {found.fault}; give a local folder, or --mirror DIR with a copy")
    return found


def _documents(need: Need) -> hub.Found:
    """Those of one of lm-eval's tasks. Of a task that it does not have, or that generates them, nothing is said."""
    from tasks.harness import places  # lm-eval takes seconds to import

    if copy := places.copy_of(need.name, need.mirror):
        return hub.Found(str(copy))
    place = places.hub_id(need.name)
    if "/" not in place:
        return hub.Found("lm-eval")
    found = hub.find("dataset", place)
    if found.fault:
        raise TaskError(
            f"{need.name}: its documents ({place}) cannot be loaded: {found.fault}; give {places.in_words(need.name)}"
        )
    return found
