"""Jobs on the slots of a cluster: as many in flight as it has room for; what dies or must wait runs elsewhere."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import ray
from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
    TaskCancelledError,
    TaskUnschedulableError,
    WorkerCrashedError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bench.records.errors import CONTINUE, InputError
from bench.run.cluster import remote
from bench.run.cluster.code import code
from bench.run.cluster.flights import Flight, Flights
from bench.run.cluster.nodes import GONE, Nodes, failed_on
from bench.run.cluster.placement import Node, free, in_turn
from bench.run.cluster.shipments import Shipments
from bench.run.cluster.waiting import IN_A_ROW, Waiting
from bench.run.engines import Say, Watch
from bench.run.job import given_up, to_send
from bench.run.jobs import RunJob, TrainJob
from bench.run.options import ClusterOptions
from bench.run.other_runs import this_run
from bench.run.worker import Done

TRIES = 3  # of a job whose process dies
NODES = 3  # that may die under a job, before it is taken to be the reason
LOST = (NodeDiedError, ObjectLostError, TaskUnschedulableError)  # with the node
CRASHED = "its process ended, as when memory runs out"


@dataclass
class ClusterPhase:
    """Some jobs that run together: one call of ``RayEngine.run``.

    cache: the folder of trained models that all nodes share, if they do. apart: each job has a machine to itself.
    limit: of jobs at once. say: prints a line.
    """

    jobs: Sequence[RunJob]
    waiting: Waiting
    options: ClusterOptions
    nodes: Nodes
    shipments: Shipments
    cache: Path | None
    apart: bool
    limit: int
    say: Say

    def __post_init__(self) -> None:
        self._losses: Counter[int] = Counter()
        self._avoided: set[str] = set()  # nodes, as was said
        self.nodes.reach()  # which Ray now tells of what it is to run
        self._take, self._pack = ray.remote(remote.take), ray.remote(remote.pack)
        self._flights = Flights()

    def outcomes(self, watch: Watch) -> Generator[Done, None, None]:
        """The outcome of each job as it ends. Raises what is no fault of a job."""
        while self.waiting or self._flights:
            self._take_back()
            self._place()
            # Now that slots are filled: Ray learns a moment later what has ended, and where.
            self.nodes.look(self._flights.taken())
            self._flights.listen()
            watch([flight for flight in self._flights if flight.seconds])
            fault: Exception | None = None
            failed: list[Done] = []  # with what ends the run: last, so that what ended beside them is kept
            for flight in self._flights.ended():
                try:
                    done = self._outcome(flight)
                except GONE:  # and with the cluster all other outcomes
                    raise
                except Exception as error:
                    fault = fault or error
                    continue
                if done is None:
                    continue
                if done.error is not None:
                    failed.append(done)
                    continue
                yield from self._ended(flight, done)
            yield from failed  # the first of them ends the run
            if fault:
                raise fault

    def _ended(self, flight: Flight, done: Done) -> Generator[Done, None, None]:
        """Its outcome, and those of the jobs that are given up with it."""
        without = given_up(self.jobs, self.waiting.followers(flight.index), done)
        self.waiting.ended(flight.index, flight.node, well=not done.died, failed=bool(without))
        for each in (done, *without):
            self.shipments.used(self.jobs[each.index])
            yield each

    def cancel(self) -> None:
        """End what is still in flight, and wait until it has."""
        self._flights.cancel()

    def _take_back(self) -> None:
        """Send jobs that are overdue elsewhere, as long as another node has room."""
        open_ones = self._open()
        nodes = [node for node in self.nodes if node.id in open_ones]
        for flight in self._flights.overdue():
            places = free(nodes, self._flights.in_time(), self.apart, self.limit)
            fit = self.waiting.fit(flight.index, self.nodes, open_ones)
            if place := next((node for node in places if node.id in fit), None):
                self._flights.take_back(flight)
                self._send(flight.index, place)

    def _place(self) -> None:
        """Send jobs to nodes that have room, then one to each node that others fill, where it waits its turn."""
        open_ones = self._open()
        for node in sorted(self.waiting.avoided(self.nodes, open_ones) - self._avoided):
            self._avoided.add(node)
            self.say(f"node {self._host(node)}: {IN_A_ROW} jobs in a row crashed there; jobs go to other nodes for now")
        for places in (free, in_turn):
            while nodes := places(self.nodes, self._flights, self.apart, self.limit):
                if (taken := self.waiting.next(nodes, self.nodes, open_ones)) is None:
                    break
                self._send(*taken)

    def _open(self) -> set[str]:
        """Ids of the nodes on which others leave room for a job, as far as is known."""
        held = {flight.node for flight in self._flights.overdue()}
        others = [node for node in self.nodes if node.id in held or node.taken >= (1 if self.apart else node.slots)]
        closed = {node.id for node in others}
        hosts = {node.host for node in others} if self.apart else set()
        return {node.id for node in self.nodes if node.id not in closed and node.host not in hosts}

    def _send(self, index: int, node: Node) -> None:
        job, number = self.jobs[index], self._flights.number()
        model = self.shipments.model(job)
        known = model if not isinstance(job, TrainJob) and self.shipments.here(model) else ""
        contents = self.shipments.contents(job)
        ticket = remote.Ticket(
            number=number,
            job=pickle.dumps(to_send(job)),
            run=this_run(),
            code=code(),
            threads=self.options.cpus,
            cache=self.cache,
            device=job.cell.device,
            model=known,
            like=self.shipments.identity(known),
            contents=contents,
            sent=self.shipments.sent(known, *(content.key for content in contents)),
        )
        cpus = max(node.cpus, self.options.cpus) if self.apart else self.options.cpus
        task = self._take.options(
            num_cpus=cpus,
            num_gpus=self.options.gpus,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        reference = task.remote(ticket, self._flights.board)
        takes = {"CPU": cpus, "GPU": self.options.gpus}
        self._flights.add(Flight(number, index, job, node.id, reference, takes))
        if model:
            node.models.add(model)

    def _outcome(self, flight: Flight) -> Done | None:
        """The outcome of a job; None where it is on its way again. Raises what is no fault of a job."""
        try:
            value = ray.get(flight.reference)
        except LOST as error:
            if flight.stopped:
                return Done(flight.index, flight.seconds, died=flight.stopped)
            self.nodes.look(self._flights.taken(), now=True)
            return self._lost(flight, error)
        except (WorkerCrashedError, OutOfMemoryError) as error:
            reason = "memory ran out on its node" if isinstance(error, OutOfMemoryError) else CRASHED
            return self._crashed(flight, Done(flight.index, flight.seconds, died=reason))
        except TaskCancelledError:
            return Done(flight.index, flight.seconds, died=flight.stopped or "it was cancelled")
        except GONE:
            raise
        except RayError as error:
            host = self._host(flight.node)
            if "ModuleNotFoundError" in str(error):
                raise InputError(f"node {host} has no headbench: {_last_line(error)}") from error
            cause = error.cause if isinstance(error, RayTaskError) else error
            if isinstance(cause, (OSError, RayError)):
                raise failed_on(host, cause) from error
            error.add_note(f"on node {host}")
            raise
        if flight.trained is not None:
            self.shipments.keep(self.shipments.model(flight.job), value)
            return flight.trained
        return self._answered(flight, value)

    def _answered(self, flight: Flight, answer: remote.Answer) -> Done | None:
        if answer.other_code:
            raise InputError(f"node {self._host(flight.node)} does not run what this machine runs: {answer.other_code}")
        if answer.unable:
            raise InputError(f"node {self._host(flight.node)} starts no process for jobs: {answer.unable}; {CONTINUE}")
        if answer.lacks:
            self.shipments.send(answer.lacks, self.shipments.contents(flight.job))
            if flight.node in self.nodes:
                self._send(flight.index, self.nodes[flight.node])
            else:
                self.waiting.add(flight.index)
            return None
        if not answer.done:  # the child died in which its process would have run
            return self._crashed(flight, Done(flight.index, flight.seconds, died=CRASHED))
        done: Done = replace(pickle.loads(answer.done), index=flight.index)
        if answer.crashed:
            return self._crashed(flight, done)
        if done.error is not None:
            return replace(done, error=self._named(done.error, flight))
        if isinstance(flight.job, TrainJob) and not done.died:
            return self._fetched(flight, done)
        return done

    def _fetched(self, flight: Flight, done: Done) -> Done | None:
        """The outcome of a training, once the driver has the model, which it has at once where it shares a cache."""
        model = self.shipments.model(flight.job)
        if not model or "failure" in done.value or self.shipments.whole(model):
            return done
        here = NodeAffinitySchedulingStrategy(flight.node, soft=False)
        task = self._pack.options(num_cpus=0, max_retries=0, scheduling_strategy=here)
        reference = task.remote(model, self.cache, flight.job.cell.device)
        fetching = replace(flight, reference=reference, takes={}, trained=done, doing="fetching the model")
        self._flights.add(fetching)
        return None

    def _lost(self, flight: Flight, error: Exception) -> Done | None:
        """Run it again elsewhere, unless it is likely to be what ends nodes."""
        if not isinstance(error, TaskUnschedulableError):
            self._losses[flight.index] += 1
        if self._losses[flight.index] >= NODES:
            return Done(flight.index, flight.seconds, died=f"{NODES} nodes died while it ran there")
        self.waiting.add(flight.index)
        return None

    def _crashed(self, flight: Flight, done: Done) -> Done | None:
        """Run it again, unless it was the last try."""
        if flight.stopped:
            return replace(done, died=flight.stopped, crashed=False)
        if self.waiting.crashed(flight.index, flight.node, TRIES) >= TRIES:
            return replace(done, died=f"{done.died}; {TRIES} tries")
        return None

    def _named(self, error: BaseException, flight: Flight) -> BaseException:
        """What a job raised, which ends the run, with the node that it ran on."""
        host = self._host(flight.node)
        if isinstance(error, OSError):
            return failed_on(host, error)
        error.add_note(f"on node {host}")
        return error

    def _host(self, node: str) -> str:
        return self.nodes[node].host if node in self.nodes else node


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]
