"""What a run asks of the engine that its jobs run on, and the one of this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench.analysis.naming import count
from bench.run.jobs import RunJob, start_process
from bench.run.processes import run_jobs
from bench.run.worker import Done


class Busy(Protocol):
    """A job at work."""

    @property
    def index(self) -> int | None:
        """Its place among the jobs."""

    @property
    def job(self) -> Any:
        """The job."""

    @property
    def doing(self) -> str:
        """What it says that it does."""

    @property
    def seconds(self) -> float:
        """How long it has been running."""

    def stop(self, reason: str) -> None:
        """End it at once; its outcome is then ``reason``."""


Watch = Callable[[Sequence[Busy]], None]
Say = Callable[[str], None]


class Engine(Protocol):
    """Where jobs run. It places them, and nothing else: planning, records and progress are the same everywhere."""

    @property
    def slots(self) -> int:
        """How many jobs run at once."""

    @property
    def machines(self) -> int:
        """On how many of them a job can run apart from all others at once."""

    def __str__(self) -> str:
        """The slots, in words."""

    def run(
        self, jobs: Sequence[RunJob], watch: Watch, say: Say = print, *, apart: bool = False
    ) -> Generator[Done, None, None]:
        """Run ``jobs``, longest-lasting ones early where that helps; yield their outcomes as they finish.

        Ends what still runs when it is closed. watch: called several times a second with what is at work. say: prints
        a line, of what the user should know of the engine. apart: no job runs beside another on its machine.
        """


@dataclass(frozen=True)
class LocalEngine:
    """Processes on this machine. fresh: see ``run_jobs``."""

    slots: int
    fresh: bool
    machines: int = 1

    def __str__(self) -> str:
        return count(self.slots, "process")

    def run(
        self, jobs: Sequence[RunJob], watch: Watch, say: Say = print, *, apart: bool = False
    ) -> Generator[Done, None, None]:
        """Run ``jobs`` in their order, one at a time if ``apart``."""
        return run_jobs(jobs, 1 if apart else self.slots, start_process, fresh=self.fresh, watch=watch)
