"""The nodes of a cluster, how many jobs each can take beside what others run there, and whether it is still there."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import ray
from ray._private.state import available_resources_per_node  # where Ray's own libraries have it from
from ray.exceptions import LocalRayletDiedError, RayError, RaySystemError, RayTaskError, RpcError

from bench.records.errors import CONTINUE, InputError
from bench.run.cluster.connection import OUTSIDE, first_line, host_and_port
from bench.run.cluster.placement import Node
from bench.run.options import EXACT, ClusterOptions

LOOK_EVERY = 2.0  # seconds
GONE_AFTER = 3  # looks in a row without an answer
GONE = (RaySystemError, RpcError, LocalRayletDiedError)  # the last is of the driver's own node
PATIENCE = 60.0  # seconds that a cluster may have no slot, before the run ends


class Nodes:
    """The nodes with room for jobs of ``options``, as they come and go.

    Raises InputError where there are nodes, and all are too small.
    """

    def __init__(self, options: ClusterOptions):
        self._options = options
        self._alive: dict[str, Node] = {}
        self._looked = -LOOK_EVERY
        self._had_slots = time.monotonic()
        self._unanswered = 0
        self._door = ray.get_runtime_context().gcs_address
        self._largest: Mapping[str, float] = {}  # of the nodes that are too small
        self.look({})
        if self._largest and not self._alive:
            cpus, gpus = (self._largest.get(kind, 0) for kind in ("CPU", "GPU"))
            raise InputError(
                f"no node of the cluster has {options.resources} for a cell (--cpus-per-cell, --gpus-per-cell): "
                f"the largest so far has {cpus:g} CPU and {gpus:g} GPU"
            )

    def __iter__(self) -> Iterator[Node]:
        return iter(self._alive.values())

    def __contains__(self, node: str) -> bool:
        return node in self._alive

    def __getitem__(self, node: str) -> Node:
        return self._alive[node]

    @property
    def slots(self) -> int:
        """How many jobs all nodes together can take beside what others run there."""
        return sum(node.slots - node.taken for node in self)

    @property
    def taken(self) -> int:
        """How many more jobs they could take if nobody else used them."""
        return sum(node.taken for node in self)

    @property
    def machines(self) -> int:
        """How many machines they are on."""
        return len({node.host for node in self})

    def look(self, own: Mapping[str, Mapping[str, float]], now: bool = False) -> None:
        """See which nodes there are; at most every other second, but ``now``. Raises InputError where none is left.

        own: CPUs and GPUs that this run uses, by node; what else is used there, others use.
        """
        if time.monotonic() - self._looked < LOOK_EVERY and not now:
            return
        self._looked = time.monotonic()
        if not self._answers():
            return
        with one_line(self._options):
            found = [entry for entry in ray.nodes() if entry["Alive"]]
            unused = {} if self._outside else available_resources_per_node()
        before, self._alive = self._alive, {}
        for entry in found:
            name, all_of_it = entry["NodeID"], entry["Resources"]
            if slots := self._fit(all_of_it):
                known = before.get(name)
                models = known.models if known else set()
                used = _used(all_of_it, unused[name], own.get(name, {})) if name in unused else {}
                left = self._fit({kind: amount - used.get(kind, 0) for kind, amount in all_of_it.items()})
                host, cpus = entry["NodeManagerHostname"], all_of_it.get("CPU", 0)
                self._alive[name] = Node(name, host, slots, cpus, models, slots - left)
            elif all_of_it.get("CPU", 0):  # a head without any waits for nodes that are to come
                self._largest = max(self._largest, all_of_it, key=self._size)
        if self._alive:
            self._had_slots = time.monotonic()
        elif time.monotonic() - self._had_slots > PATIENCE:
            raise gone(self._options, f"no node is left with {self._options.resources} for a cell")

    def reach(self) -> None:
        """Wait until the head of the cluster answers. Raises InputError if it does not for a while."""
        while not self._answers():
            time.sleep(LOOK_EVERY)

    def _fit(self, resources: Mapping[str, float]) -> int:
        fit = int(resources.get("CPU", 0) / self._options.cpus + EXACT)
        return min(fit, self._options.fit(resources.get("GPU", 0))) if self._options.gpus else fit

    def _size(self, resources: Mapping[str, float]) -> tuple[float, ...]:
        kinds = ("GPU", "CPU") if self._options.gpus else ("CPU", "GPU")
        return tuple(resources.get(kind, 0) for kind in kinds)

    @property
    def _outside(self) -> bool:
        """Whether this process is on no node of the cluster, which then does not say what is used of each node."""
        return self._options.address.startswith(OUTSIDE)

    def _answers(self) -> bool:
        """Whether the head of the cluster answers. Ray would wait a minute for it, and then end this process.

        Raises InputError where it has not answered for a while.
        """
        host, port = host_and_port(self._door)
        if self._outside or not port.isdecimal():
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


def _used(all_of_it: Mapping[str, float], unused: Mapping[str, float], own: Mapping[str, float]) -> dict[str, float]:
    """CPUs and GPUs of a node that others use. Ray leaves out what is used up."""
    return {kind: max(0.0, all_of_it.get(kind, 0) - unused.get(kind, 0) - own.get(kind, 0)) for kind in ("CPU", "GPU")}


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
