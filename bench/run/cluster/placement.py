"""Which job goes to which node: the longest that may start or, of those about as long, one whose model is there."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.run.job import followers

ALIKE = 0.5  # a job that takes at least this share of the longest one's time may go ahead of it


@dataclass
class Node:
    """A node that is alive."""

    id: str
    host: str
    slots: int  # all of them, as cpus are
    cpus: float
    models: set[str] = field(default_factory=set)  # folders in its cache, as far as is known
    taken: int = 0  # slots that others than this run use


class Queue:
    """Jobs that wait, by place, longest first; one that ``needs`` another is held back until that has ended.

    lengths: expected seconds of each. model: what a job reads that it is good to have on the node; None for nothing.
    """

    def __init__(
        self, jobs: Sequence[Any], lengths: Sequence[float], model: Callable[[Any], Hashable | None] = lambda job: None
    ):
        self._models = [model(job) for job in jobs]
        self._followers = followers(jobs)
        # What a training holds back counts as part of it: the longest chain is to begin first.
        self._lengths = [
            length + max((lengths[after] for after in self._followers.get(index, ())), default=0.0)
            for index, length in enumerate(lengths)
        ]
        self._ready: list[tuple[float, int]] = []
        self._of_model: dict[Hashable, list[tuple[float, int]]] = defaultdict(list)
        self._waiting: set[int] = set()
        held = set().union(*self._followers.values())
        self._held = len(held)
        for index in range(len(jobs)):
            if index not in held:
                self.add(index)

    def __len__(self) -> int:
        """How many wait, those held back included."""
        return len(self._waiting) + self._held

    def add(self, index: int) -> None:
        """The job at ``index`` waits, or waits again."""
        entry = (-self._lengths[index], index)
        self._waiting.add(index)
        heapq.heappush(self._ready, entry)
        if self._models[index] is not None:
            heapq.heappush(self._of_model[self._models[index]], entry)

    def followers(self, index: int) -> Collection[int]:
        """The jobs that are held back until the one at ``index`` has ended."""
        return self._followers.get(index, ())

    def ended(self, index: int, failed: bool = False) -> None:
        """The job at ``index`` has ended: those that need it wait from now on or, if it has ``failed``, never will."""
        for follower in self._followers.pop(index, ()):
            self._held -= 1
            if not failed:
                self.add(follower)

    def take(self, models: Collection[Hashable] = ()) -> int | None:
        """Take the next job for a node that has ``models`` out of the queue; its place, or None if none may start."""
        if (first := self._top(self._ready)) is None:
            return None
        least = ALIKE * self._lengths[first[1]]
        there = [top for model in models if (top := self._top(self._of_model.get(model, []))) is not None]
        entry = min(there, default=first)
        chosen = entry[1] if -entry[0] >= least else first[1]
        self._waiting.discard(chosen)
        return chosen

    def _top(self, heap: list[tuple[float, int]]) -> tuple[float, int] | None:
        """The longest of the jobs in ``heap`` that still waits."""
        while heap and heap[0][1] not in self._waiting:
            heapq.heappop(heap)
        return heap[0] if heap else None


def free(nodes: Iterable[Node], running: Iterable[Any], apart: bool, limit: int) -> list[Node]:
    """Those of ``nodes`` with room for one more job, the emptiest first.

    running: what is at work, each with the ``node`` that it was sent to. apart: a machine takes one job at a time, and
    none while others use it.
    """
    at_work, known = list(running), list(nodes)
    if len(at_work) >= limit:
        return []
    on = Counter(each.node for each in at_work)
    if apart:
        hosts = {node.host for node in known if on[node.id] or node.taken}
        return [node for node in known if node.host not in hosts]
    room = (node for node in known if on[node.id] + node.taken < node.slots)
    return sorted(room, key=lambda node: (on[node.id] + node.taken) / node.slots)


def in_turn(nodes: Iterable[Node], running: Iterable[Any], apart: bool, limit: int) -> list[Node]:
    """Those of ``nodes`` that others use and on which no job of this run ``waits`` yet, so that one may wait there.

    Without this, a run would never get a slot beside others that fill each slot as soon as it is free. Arguments as
    for ``free``.
    """
    at_work, known = list(running), list(nodes)
    if len(at_work) >= limit:
        return []
    held = {each.node for each in at_work if apart or each.waits}
    hosts = {node.host for node in known if node.id in held} if apart else set()
    return [node for node in known if node.taken and node.id not in held and node.host not in hosts]
