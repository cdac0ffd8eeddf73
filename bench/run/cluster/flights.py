"""Jobs on their way: where each was sent, what it takes there, and whether it has begun."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import ray
from ray.exceptions import ActorUnschedulableError, ObjectLostError, RayActorError, RayError

from bench.run.cluster.remote import StatusBoard
from bench.run.worker import Done

TICK = 0.25  # seconds between two looks at what they do
WAIT = 10.0  # seconds in which a job begins, its process included, unless others use the node
ENDING = 5.0  # seconds that cancelled jobs have to end


@dataclass
class Flight:
    """A job that was sent to a node. takes: CPUs and GPUs of the node, by Ray's names.

    number: of this flight alone; the same job may be sent again. index: of the job.
    """

    number: int
    index: int
    job: Any
    node: str
    reference: Any
    takes: Mapping[str, float]
    doing: str = ""
    trained: Done | None = None  # the outcome of the training whose model is fetched from the node
    stopped: str = ""  # why it was stopped; empty where it was not
    sent: float = field(default_factory=time.monotonic)
    _began: float | None = None

    @property
    def seconds(self) -> float:
        """How long it has been running; 0 until it has said so."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    @property
    def waits(self) -> bool:
        """Whether it has not begun, as far as is known: its process starts, or others use what it is to take."""
        return self._began is None and self.trained is None

    def tell(self, seconds: float, doing: str) -> None:
        """It has been running for so many seconds."""
        self._began, self.doing = time.monotonic() - seconds, doing

    def stop(self, reason: str) -> None:
        """End it; its outcome is then ``reason``."""
        self.stopped = reason
        ray.cancel(self.reference)


class Flights:
    """The jobs on their way, and what they say that they do, on a board that outlives nodes."""

    def __init__(self) -> None:
        self._all: dict[Any, Flight] = {}
        self._numbers = count()
        self.board: Any = ray.remote(num_cpus=0, max_restarts=-1)(StatusBoard).remote()
        self._told: Any = None  # what the board is asked for
        self._asked = self._known = time.monotonic()  # when it was asked, and when for what it last answered

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def number(self) -> int:
        """The number of the next flight."""
        return next(self._numbers)

    def add(self, flight: Flight) -> None:
        """It is on its way."""
        self._all[flight.reference] = flight

    def take_back(self, flight: Flight) -> None:
        """End it; it is no flight any more."""
        del self._all[flight.reference]
        ray.cancel(flight.reference)

    def overdue(self) -> list[Flight]:
        """Those that should have begun long ago: others use the node, which they did not when it was sent there."""
        return [flight for flight in self if flight.waits and self._known > flight.sent + WAIT]

    def in_time(self) -> list[Flight]:
        """All the others."""
        overdue = {id(flight) for flight in self.overdue()}
        return [flight for flight in self if id(flight) not in overdue]

    def taken(self) -> dict[str, Counter[str]]:
        """CPUs and GPUs that they take, by node; those that are overdue take none."""
        found: dict[str, Counter[str]] = {}
        for flight in self.in_time():
            found.setdefault(flight.node, Counter()).update(flight.takes)
        return found

    def listen(self) -> None:
        """Note what they say, as far as the board has answered."""
        if self._told is None:
            self._told, self._asked = self.board.read.remote(), time.monotonic()
        if not ray.wait([self._told], timeout=0)[0]:
            return
        reference, self._told = self._told, None
        with suppress(RayActorError, ActorUnschedulableError, ObjectLostError):  # its node died; another takes it over
            told: Mapping[int, tuple[float, str]] = ray.get(reference)
            self._known = self._asked
            for flight in self:
                if flight.number in told:
                    flight.tell(*told[flight.number])

    def ended(self) -> list[Flight]:
        """Those that have ended, after waiting a moment for one; they are flights no more."""
        if not self._all:
            time.sleep(TICK)
            return []
        references = list(self._all)
        ready, _ = ray.wait(references, num_returns=1, timeout=TICK)
        if ready:
            ready, _ = ray.wait(references, num_returns=len(references), timeout=0)
        return [self._all.pop(reference) for reference in ready]

    def cancel(self) -> None:
        """End all, and wait until they have ended."""
        with suppress(RayError, ConnectionError):
            for reference in self._all:
                ray.cancel(reference)
            if self._all:
                ray.wait(list(self._all), num_returns=len(self._all), timeout=ENDING)
            ray.kill(self.board)
