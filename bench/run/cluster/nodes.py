"""The nodes of a cluster, how many jobs each can take, and whether the cluster is still there."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray.exceptions import LocalRayletDiedError, RayError, RaySystemError, RayTaskError, RpcError

from bench.records.errors import InputError
from bench.run.cluster.connection import first_line
from bench.run.cluster.placement import Node
from bench.run.options import ClusterOptions

LOOK_EVERY = 2.0  # seconds
GONE_AFTER = 3  # looks in a row without an answer
GONE = (RaySystemError, RpcError, LocalRayletDiedError)  # the last is of the driver's own node
CONTINUE = "finished cells are kept: run the command again to continue"
PATIENCE = 60.0  # seconds that a cluster may have no slot, before the run ends


class Nodes:
    """The nodes with room for jobs of ``options``, as they come and go."""

    def __init__(self, options: ClusterOptions):
        self._options = options
        self._alive: dict[str, Node] = {}
        self._looked = -LOOK_EVERY
        self._had_slots = time.monotonic()
        self._unanswered = 0
        self._door = ray.get_runtime_context().gcs_address
        self.look()

    def __iter__(self) -> Iterator[Node]:
        return iter(self._alive.values())

    def __contains__(self, node: str) -> bool:
        return node in self._alive

    def __getitem__(self, node: str) -> Node:
        return self._alive[node]

    @property
    def slots(self) -> int:
        """How many jobs all of them can take."""
        return sum(node.slots for node in self)

    @property
    def machines(self) -> int:
        """How many machines they are on."""
        return len({node.host for node in self})

    def look(self, now: bool = False) -> None:
        """See which nodes there are; at most every other second, but ``now``. Raises InputError where none is left."""
        if time.monotonic() - self._looked < LOOK_EVERY and not now:
            return
        self._looked = time.monotonic()
        if not self._answers():
            return
        with one_line(self._options):
            found = [entry for entry in ray.nodes() if entry["Alive"]]
        before, self._alive = self._alive, {}
        for entry in found:
            resources = entry["Resources"]
            if slots := self._fit(resources):
                known = before.get(entry["NodeID"])
                models = known.models if known else set()
                host = entry["NodeManagerHostname"]
                self._alive[entry["NodeID"]] = Node(entry["NodeID"], host, slots, resources.get("CPU", 0), models)
        if self._alive:
            self._had_slots = time.monotonic()
        elif time.monotonic() - self._had_slots > PATIENCE:
            raise gone(self._options, f"no node is left with {self._options.resources} for a cell")

    def _fit(self, resources: dict[str, float]) -> int:
        cpus, gpus = self._options.cpus, self._options.gpus
        fit = int(resources.get("CPU", 0) // cpus)
        return min(fit, int(resources.get("GPU", 0) / gpus + 1e-6)) if gpus else fit

    def _answers(self) -> bool:
        """Whether the head does. Ray would wait a minute for it, and then end this process.

        Raises InputError where it has not answered for a while.
        """
        host, _, port = self._door.rpartition(":")
        if self._options.address.startswith("ray://") or not port.isdecimal():
            return True
        try:
            socket.create_connection((host, int(port)), LOOK_EVERY).close()
        except OSError as error:
            self._unanswered += 1
            if self._unanswered >= GONE_AFTER:
                raise gone(self._options, error) from error
            return False
        self._unanswered = 0
        return True


def gone(options: ClusterOptions, error: object) -> InputError:
    """The error for a cluster that does not answer any more."""
    said = first_line(error) if isinstance(error, BaseException) else error
    return InputError(f"the cluster at {options.address or 'this machine'} is gone ({said}); {CONTINUE}")


def failed_on(host: str, error: BaseException) -> InputError:
    """The error for what ends a run and is the fault of a node: a full disk, or object store."""
    if isinstance(error, OSError) and error.strerror:
        said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        said = first_line(error)
    return InputError(f"node {host}: {said}; {CONTINUE}")


@contextmanager
def one_line(options: ClusterOptions) -> Iterator[None]:
    """Inside, a lost connection to the cluster is one line, and so is what Ray cannot do; a bug in a task is not."""
    try:
        yield
    except (*GONE, ConnectionError) as error:
        raise gone(options, error) from error
    except RayTaskError:
        raise
    except RayError as error:
        raise InputError(f"Ray: {first_line(error)}; {CONTINUE}") from error
