"""Estimate the time that jobs take, before and during a run, from the jobs and records seen so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from bench.records.schema import FinishedRecord, Record
from bench.run.jobs import Job, TrainJob

ALIKE = 3  # parts of a job's description that must agree for jobs on a user's own model: kind, data and model
NOMINAL = {"train": 25.0, "cell": 5.0}  # seconds for a small model on one thread, until something was measured


class Estimator:
    """Expected seconds of a job: the mean of the most similar jobs seen."""

    def __init__(self, records: Iterable[Record] = ()):
        self._seen: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for record in records:
            if isinstance(record, FinishedRecord):
                cell = record.cell
                path = (cell.data, cell.model, cell.label)
                self._add(("cell", *path), record.measured.seconds)
                if record.measured.training_seconds:
                    self._add(("train", *path[:2]), record.measured.training_seconds)

    def saw(self, job: Job, seconds: float) -> None:
        """Learn that ``job`` took ``seconds``."""
        self._add(_similar(job), seconds)

    def seconds(self, jobs: Iterable[Job], workers: int) -> float | None:
        """Expected wall seconds of ``jobs`` on ``workers`` processes; None if it is not known for one of them.

        The time for a user's own model is estimated only from jobs with that model on that data.
        """
        expected = [self._expected(_similar(job), own=bool(job.cell.task.model)) for job in jobs]
        known = [seconds for seconds in expected if seconds is not None]
        return sum(known) / workers if len(known) == len(expected) else None

    def _add(self, path: tuple[str, ...], seconds: float) -> None:
        for length in range(1, len(path) + 1):
            self._seen[path[:length]].append(seconds)

    def _expected(self, path: tuple[str, ...], own: bool) -> float | None:
        for length in range(len(path), ALIKE - 1 if own else 0, -1):
            if seen := self._seen.get(path[:length]):
                return sum(seen) / len(seen)
        return None if own else NOMINAL[path[0]]


def _similar(job: Job) -> tuple[str, ...]:
    """Kind, data and model, method: jobs with a longer common beginning are more alike."""
    cell = job.cell
    kind = ("train", cell.data, cell.model)
    return kind if isinstance(job, TrainJob) else ("cell", cell.data, cell.model, cell.method.label)
