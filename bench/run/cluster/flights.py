"""Jobs on their way: where each was sent, what it takes there, and whether it has begun."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ray

from bench.run.worker import Done


@dataclass
class Flight:
    """A job that was sent to a node. takes: CPUs and GPUs of the node, by Ray's names."""

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


def taken(flights: Iterable[Flight]) -> dict[str, Counter[str]]:
    """CPUs and GPUs that ``flights`` take, by node."""
    found: dict[str, Counter[str]] = {}
    for flight in flights:
        found.setdefault(flight.node, Counter()).update(flight.takes)
    return found
