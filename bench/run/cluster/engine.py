"""Run jobs on the slots of a cluster that this process is connected to."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from bench.analysis.naming import count
from bench.run.cluster.nodes import Nodes, one_line
from bench.run.cluster.phase import ClusterPhase
from bench.run.cluster.placement import Queue
from bench.run.cluster.shipments import Shipments
from bench.run.cluster.waiting import Waiting
from bench.run.engines import Say, Watch
from bench.run.jobs import RunJob
from bench.run.options import ClusterOptions
from bench.run.worker import Done


class RayEngine:
    """The slots of the cluster that this process is connected to.

    root: the driver's cache of trained models. shared: whether all nodes use that very folder by that path. limit: of
    jobs at once. weigh: expected seconds of a job.
    """

    def __init__(
        self, options: ClusterOptions, root: Path, shared: bool, limit: int | None, weigh: Callable[[RunJob], float]
    ):
        self._options, self._root, self._weigh = options, root, weigh
        self._cache = root if shared else None
        self._limit = limit or 10**9
        self._nodes = Nodes(options)

    @property
    def slots(self) -> int:
        """How many jobs run at once; 1 while there is no room at all, as nodes may come."""
        return max(1, min(self._limit, self._nodes.slots))

    @property
    def machines(self) -> int:
        """How many machines the nodes are on."""
        return max(1, min(self._limit, self._nodes.machines))

    def __str__(self) -> str:
        others = f", {self._nodes.taken} more used by others" if self._nodes.taken else ""
        return f"{count(self.slots, 'slot')} of {count(len(list(self._nodes)), 'node')}{others}"

    def run(
        self, jobs: Sequence[RunJob], watch: Watch, say: Say = print, *, apart: bool = False
    ) -> Generator[Done, None, None]:
        """Run ``jobs``, longest first. Raises InputError where the cluster is gone, or a node runs other code."""
        shipments = Shipments(jobs, self._root)
        waiting = Waiting(Queue(jobs, [self._weigh(job) for job in jobs], shipments.model))
        phase = ClusterPhase(jobs, waiting, self._options, self._nodes, shipments, self._cache, apart, self._limit, say)
        try:
            with one_line(self._options):
                yield from phase.outcomes(watch)
        finally:
            phase.cancel()
