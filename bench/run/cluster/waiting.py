"""Jobs that wait for a node: those whose process ended by itself go first, to nodes on which that has not happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from bench.run.cluster.placement import Node, Queue

IN_A_ROW = 3  # jobs that crash on a node, before others go elsewhere


class Waiting:
    """The jobs of ``queue``, and those of them that have crashed.

    Where the process of a job ends by itself, the job may be the reason, as when its method has a bug, or the node,
    as when its memory is faulty. So a node is in doubt for every job that crashed there since one last ended there as
    it should. A job that has crashed runs again on a node that is not in doubt; one that crashes at each of its tries
    puts no node in doubt. A node on which several jobs crashed in a row is given none as long as there are others.

    Methods that choose a node are given all that are alive, and the ids of those that are ``open`` to this run. It
    never waits for what may never come: where others hold all of a node, that one may do better is no reason to wait.
    """

    def __init__(self, queue: Queue):
        self._queue = queue
        self._again: list[int] = []
        self._crashes: dict[int, Counter[str]] = defaultdict(Counter)  # of each job, by node
        self._doubts: dict[str, set[int]] = defaultdict(set)  # of each node, the jobs that crashed there

    def __len__(self) -> int:
        """How many wait, those held back included."""
        return len(self._queue) + len(self._again)

    def add(self, index: int) -> None:
        """The job at ``index`` waits again, for no fault of its own."""
        if index in self._crashes:
            self._again.append(index)
        else:
            self._queue.add(index)

    def crashed(self, index: int, node: str, tries: int) -> int:
        """The job at ``index`` crashed on ``node``: it waits again, unless that was its last try. How many it had."""
        self._crashes[index][node] += 1
        self._doubts[node].add(index)
        had = self._crashes[index].total()
        if had < tries:
            self._again.append(index)
        else:
            for jobs in self._doubts.values():
                jobs.discard(index)
        return had

    def followers(self, index: int) -> Collection[int]:
        """The jobs that are held back until the one at ``index`` has ended."""
        return self._queue.followers(index)

    def ended(self, index: int, node: str, well: bool, failed: bool = False) -> None:
        """The job at ``index`` has ended on ``node``. well: not because its process did, or was ended.

        failed: so that those that need it are not run.
        """
        self._queue.ended(index, failed)
        if well:
            self._doubts.pop(node, None)

    def in_doubt(self, node: str) -> int:
        """For how many jobs ``node`` is in doubt."""
        return len(self._doubts.get(node, ()))

    def avoided(self, nodes: Iterable[Node], open_ones: Collection[str]) -> set[str]:
        """Those of ``nodes`` that are given no job that has not crashed."""
        alive = list(nodes)
        return {node.id for node in alive} - self.fit(None, alive, open_ones)

    def next(
        self, places: Sequence[Node], nodes: Iterable[Node], open_ones: Collection[str]
    ) -> tuple[int, Node] | None:
        """Take a job for the first of ``places`` that one may go to."""
        alive = list(nodes)
        fit = {index: self.fit(index, alive, open_ones) for index in (*self._again, None)}
        for node in places:
            if (again := next((index for index in self._again if node.id in fit[index]), None)) is not None:
                self._again.remove(again)
                return again, node
            if node.id in fit[None] and (taken := self._queue.take(node.models)) is not None:
                return taken, node
        return None

    def fit(self, index: int | None, nodes: Iterable[Node], open_ones: Collection[str]) -> set[str]:
        """Those of ``nodes`` that the job at ``index`` may go to; None for one that has not crashed."""
        crashes = self._crashes.get(index, ()) if index is not None else ()
        ranks = {}
        for node in nodes:
            doubts, again = self.in_doubt(node.id), node.id in crashes
            ranks[node.id] = (doubts >= IN_A_ROW, again, bool(crashes and doubts))
        best = min((rank for node, rank in ranks.items() if node in open_ones), default=(True, True, True))
        return {node for node, rank in ranks.items() if rank <= best}
