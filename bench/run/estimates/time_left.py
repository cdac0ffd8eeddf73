"""Estimate the time that jobs take: relative costs that are known beforehand, scaled by what this run has seen.

The costs of jobs differ a hundredfold between methods, and the first jobs of a run are no fair sample of the others.
So a job's cost relative to other jobs is taken from :mod:`bench.run.estimates.costs`, and is corrected step by step:
for the speed of the machine, and for what kinds of jobs, shapes of methods, models, methods and cells turn out to take
here.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from bench.records.schema import FinishedRecord, Record
from bench.run.estimates.costs import Costs
from bench.run.jobs import CellJob, RunJob, TimingJob, TrainJob
from methods import METHODS

UNIT = 5.0  # seconds of an average cell on one thread, until something was seen
# Weight of a record of an earlier run, whose circumstances may have differed, against a job of this run.
OF_BEFORE = 0.2
# How many average jobs must have been seen until half of what they differ from the expected is believed: for a kind of
# job; a shape of methods in it; a model; a method; one method on one model, of which other seeds were seen. The wide
# groups need many, as the first cells of a run are all on one task, and say little of those on others.
CAUTION = (16, 16, 8, 2, 0.25)
# In all but the narrowest groups, times above this multiple of the expected count as the multiple: the first cell of a
# task in a process loads libraries and data, and says little of those that follow.
MOST_UNUSUAL = 1.5


class JobWork(NamedTuple):
    """What a job's cost depends on."""

    kind: str  # train, cell or timing
    task: str
    model: tuple[str, str]  # data and model
    own: bool  # whether model or data are the user's
    label: str
    trains: bool  # whether the method does

    def groups(self) -> tuple[Hashable, ...]:
        """From wide to narrow, the groups of jobs whose costs are likely to be off by the same factor."""
        return (
            self.kind,
            (self.kind, self.trains),
            (self.kind, self.model),
            (self.kind, self.label),
            (self.kind, self.model, self.label),
        )


class Seen(NamedTuple):
    """A job that has ended."""

    work: JobWork
    seconds: float
    weight: float


class Estimator:
    """Expected seconds of jobs, from those seen so far."""

    def __init__(self, costs: Costs):
        self._costs = costs
        self._priors: dict[JobWork, float] = {}
        self._seen: list[Seen] = []
        self._models: set[tuple[str, str]] = set()  # of those seen
        self._factors: dict[Hashable, float] | None = None  # by group; None when it must be computed anew
        self._expected: dict[JobWork, float] = {}  # seconds, by these factors

    def learn(self, record: Record) -> None:
        """Learn what a cell of an earlier run took; a failed one says nothing."""
        if isinstance(record, FinishedRecord):
            cell, measured = record.cell, record.measured
            work = JobWork("cell", cell.task, (cell.data, cell.model), False, cell.label, cell.trained is not None)
            self._add(work, measured.seconds, OF_BEFORE)
            self._add(work._replace(kind="timing"), measured.timing_seconds, OF_BEFORE)
            self._add(work._replace(kind="train", label="", trains=False), measured.training_seconds, OF_BEFORE)

    def saw(self, job: RunJob, seconds: float) -> None:
        """Learn that ``job`` took ``seconds``."""
        self._add(_work_of(job), seconds)

    def seconds(self, job: RunJob) -> float | None:
        """Expected seconds of ``job`` on one process; None if it is on own model or data that nothing is known of."""
        work = _work_of(job)
        if work.own and work.model not in self._models:
            return None
        if self._factors is None:
            self._factors, self._expected = self._fit(), {}
        if work not in self._expected:  # asked for each waiting job after each that ends, and many are alike
            seconds = self._prior(work) * self._factors.get(None, UNIT)
            for group in work.groups():
                seconds *= self._factors.get(group, 1.0)
            self._expected[work] = seconds
        return self._expected[work]

    def weight(self, job: RunJob) -> float:
        """Seconds of ``job`` to order it by, also where nothing is known of its model."""
        seconds = self.seconds(job)
        return self._prior(_work_of(job)) * UNIT if seconds is None else seconds

    def left(
        self,
        waiting: Iterable[RunJob],
        workers: int,
        after: Iterable[RunJob] = (),
        running: Iterable[tuple[RunJob, float]] = (),
        machines: int = 1,
    ) -> float | None:
        """Wall seconds until all is done; None if that is not known for some job.

        waiting: jobs to start, in their order. after: jobs that run when all others have ended, one by one on each of
        the ``machines``. running: jobs at work, each with the seconds it has taken so far.
        """
        loads: list[float] = []
        for job, spent in running:
            if (whole := self.seconds(job)) is None:
                return None
            # A job that takes longer than expected is not nearly done.
            loads.append(max(whole - spent, whole / 10))
        to_start = list(waiting)
        loads += [0.0] * min(workers - len(loads), len(to_start))
        heapq.heapify(loads)
        for job in to_start:
            if (whole := self.seconds(job)) is None:
                return None
            heapq.heapreplace(loads, loads[0] + whole)
        one_by_one = [self.seconds(job) for job in after]
        known = [seconds for seconds in one_by_one if seconds is not None]
        return max(loads, default=0.0) + sum(known) / machines if len(known) == len(one_by_one) else None

    def _add(self, work: JobWork, seconds: float, weight: float = 1.0) -> None:
        if seconds > 0:
            self._seen.append(Seen(work, seconds, weight))
            self._models.add(work.model)
            self._factors = None

    def _fit(self) -> dict[Hashable, float]:
        """The factor of each group on the expected costs of its jobs; of ``None``, the group of all, seconds per unit.

        Groups are corrected from wide to narrow. A group's factor is observed over expected seconds, where both are
        raised by some jobs that took what was expected, so that few jobs change little.
        """
        observed = [seen.seconds * seen.weight for seen in self._seen]
        expected = [self._prior(seen.work) * seen.weight for seen in self._seen]
        if not observed:
            return {None: UNIT}
        groups_of = [seen.work.groups() for seen in self._seen]
        scale = sum(observed) / sum(expected)
        factors: dict[Hashable, float] = {None: scale}
        expected = [seconds * scale for seconds in expected]
        for level, caution in enumerate(CAUTION):
            keys = [groups[level] for groups in groups_of]
            sums: dict[Hashable, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
            for key, seen, took, likely in zip(keys, self._seen, observed, expected, strict=True):
                usual = took if level == len(CAUTION) - 1 else min(took, MOST_UNUSUAL * likely)
                for place, value in enumerate((usual, likely, seen.weight)):
                    sums[key][place] += value
            for key, (took, likely, weight) in sums.items():
                as_expected = caution * likely / weight
                factors[key] = (took + as_expected) / (likely + as_expected)
            expected = [likely * factors[key] for key, likely in zip(keys, expected, strict=True)]
        return factors

    def _prior(self, work: JobWork) -> float:
        if work not in self._priors:
            self._priors[work] = self._costs.of(work.kind, work.task, work.label, work.trains)
        return self._priors[work]


def _work_of(job: RunJob) -> JobWork:
    cell = job.cell
    kind = {TrainJob: "train", CellJob: "cell", TimingJob: "timing"}[type(job)]
    work = JobWork(
        kind,
        cell.task.task,
        (cell.data, cell.model),
        bool(cell.task.model or cell.task.source),
        cell.method.label,
        METHODS[cell.method.name].trains,
    )
    return work._replace(label="", trains=False) if kind == "train" else work
