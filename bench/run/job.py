"""What an engine asks of the jobs that it runs, and what becomes of one that needs another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from bench.run.worker import Done


class Sendable(Protocol):
    """A job that is made ready to be sent to a process when its turn comes."""

    def to_send(self) -> Callable[[], Any]:
        """What is sent in its place."""


class Needed(Protocol):
    """A job that others wait for."""

    def died(self, reason: str) -> Any:
        """What it would have returned, where its process has ended for ``reason``."""

    def failed(self, report: Any) -> bool:
        """Whether what it returned means that the jobs which need it are not to be run."""


class Dependent(Protocol):
    """A job that is not started while the one that it needs is running, nor where that one has failed."""

    @property
    def needs(self) -> Needed | None:
        """Another of the jobs, which comes before it; None for none."""

    def without(self, report: Any) -> Any:
        """What it returns without being run, as the job that it needs has failed with ``report``."""


# A piece of work that can be sent to another process. It may also be a ``Needed`` or a ``Dependent``, and one with a
# ``timeout``, in seconds, is ended after it.
Job = Callable[[], Any] | Sendable


def to_send(job: Job) -> Callable[[], Any]:
    """What is sent to a process in place of ``job``."""
    return job if callable(job) else job.to_send()


def followers(jobs: Sequence[Any]) -> dict[int, list[int]]:
    """The places of the jobs that need another one of ``jobs``, by the place of that one."""
    place = {id(job): index for index, job in enumerate(jobs)}
    found: dict[int, list[int]] = defaultdict(list)
    for index, job in enumerate(jobs):
        if (before := place.get(id(getattr(job, "needs", None)))) is not None:
            found[before].append(index)
    return found


def given_up(jobs: Sequence[Any], places: Collection[int], done: Done) -> list[Done]:
    """The outcomes of the jobs at ``places``, which need the one that is ``done``, if that has failed; else none.

    Each of them would else do in its own time what has failed, such as training a model, and most likely fail too.
    """
    if not places or done.error is not None:
        return []
    job: Needed = jobs[done.index]
    waiting: list[Dependent] = [jobs[place] for place in places]
    report = job.died(done.died) if done.died else done.value
    if not job.failed(report):
        return []
    return [Done(place, 0.0, each.without(report)) for place, each in zip(places, waiting, strict=True)]
