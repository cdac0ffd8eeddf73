"""The two phases of a run: cells side by side, with an interim leaderboard, then timing one by one."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.analysis.curves import curve, removes
from bench.analysis.naming import count
from bench.analysis.quality import quality_name
from bench.measure.cell import reason_of
from bench.measure.status import duration
from bench.records.schema import FinishedRecord, Record
from bench.records.storage.store import Store
from bench.report import leaderboard
from bench.run.engines import Busy, Engine
from bench.run.estimates.time_left import Estimator
from bench.run.jobs import CellJob, RunJob, TimingJob, TrainJob, without_model
from bench.run.other_runs import other_runs
from bench.run.progress import Progress
from bench.run.worker import Done
from bench.suites.cells import Cell
from tasks.request import TaskSpec

PER_JOB = 0.001  # seconds, for each job that is left, for which what was said of the time left stays good
PER_SECOND = 20  # the same, for each second that it took to find out
TIMING_LINES = 10  # lines of progress while cells are timed, which is quick for each


@dataclass
class Phase:
    """Jobs on ``engine``, with what is at hand and the time left shown meanwhile.

    after: jobs that follow, one by one on each machine, for the time left. apart: whether ``jobs`` run so too.
    """

    jobs: Sequence[RunJob]
    engine: Engine
    estimator: Estimator
    after: Sequence[RunJob] = ()
    apart: bool = False

    def __post_init__(self) -> None:
        self._left = dict(enumerate(self.jobs))
        self._running: dict[int, float] = {}  # seconds so far, by place of the job
        self._progress = Progress()
        self._told_left, self._good_until = "", -math.inf

    def outcomes(self) -> Generator[tuple[Any, Done], None, None]:
        """Each job with its outcome, as it ends. Raises what a job raised; ends all that runs when it is closed."""

        def watch(busy: Sequence[Busy]) -> None:
            self._running = {each.index: each.seconds for each in busy if each.index is not None}
            self._progress.watch(busy, self.left())

        ended = self.engine.run(self.jobs, watch, self.say, apart=self.apart)
        with self._progress, closing(ended):
            for done in ended:
                job = self._left.pop(done.index)
                if done.error is not None:
                    raise done.error
                if not done.died and not job.failed(done.value):
                    self.estimator.saw(job, done.seconds)
                yield job, done

    def left(self) -> str:
        """``about 3 min left``; empty where that is not known, or nothing is left. Of many jobs, now and then anew."""
        now = time.monotonic()
        if now < self._good_until:
            return self._told_left
        waiting = [job for place, job in self._left.items() if place not in self._running]
        running = [(self._left[place], spent) for place, spent in self._running.items() if place in self._left]
        places = self.engine.machines if self.apart else self.engine.slots
        seconds = self.estimator.left(waiting, places, self.after, running, self.engine.machines)
        self._told_left = f"about {duration(seconds)} left" if seconds else ""
        took = time.monotonic() - now  # with ten thousands of jobs seen, some tenths of a second
        self._good_until = now + max(len(self._left) * PER_JOB, took * PER_SECOND)
        return self._told_left

    def say(self, text: str) -> None:
        """Print lines to standard output."""
        self._progress.say(text)


def run_cells(
    jobs: Sequence[TrainJob | CellJob],
    timing: Sequence[TimingJob],
    engine: Engine,
    estimator: Estimator,
    out: Path,
) -> dict[tuple[TaskSpec, int], str]:
    """Train models and run cells, with a line and, of a cell, a record for each. timing: the jobs that will follow.

    Returns why models were not trained, by task and seed.
    """
    phase = Phase(jobs, engine, estimator, timing)
    store = Store(out)
    first_seed = _first_seed(jobs)
    untrained: dict[tuple[TaskSpec, int], str] = {}
    with closing(phase.outcomes()) as outcomes:
        for number, (job, done) in enumerate(outcomes, 1):
            value: Any = job.died(done.died) if done.died else done.value
            if isinstance(job, TrainJob):
                told = _trained(job, value)
                if job.failed(value):
                    untrained[job.cell.task, job.cell.seed] = value["failure"]
            else:
                told = _outcome(job.cell, job.write(value, store))
            left = f", {text}" if number < len(jobs) and (text := phase.left()) else ""
            phase.say(f"[{number}/{len(jobs)}] {told} ({duration(done.seconds)}{left})")
            if job in first_seed:
                first_seed.discard(job)
                if not first_seed:
                    phase.say(f"\nAfter seed {job.cell.seed} of all tasks:\n\n{leaderboard.summary(out)}\n")
    return untrained


def time_cells(
    jobs: Sequence[TimingJob],
    engine: Engine,
    estimator: Estimator,
    out: Path,
    untrained: Mapping[tuple[TaskSpec, int], str],
) -> dict[Cell, str]:
    """Time cells, one by one on each machine, and add that to their records; why not, for those that cannot be.

    untrained: why models were not trained, by task and seed.
    """
    models = {job: untrained.get((job.cell.task, job.cell.seed)) for job in jobs}
    failed = {job.cell: without_model(why) for job, why in models.items() if why}
    jobs = [job for job, why in models.items() if not why]
    if not jobs:
        return failed
    phase = Phase(jobs, engine, estimator, apart=True)
    store = Store(out)
    beside = "".join(f"; another run is at work, and may slow it down ({each})" for each in other_runs() or ())
    phase.say(f"timing the smaller models of {count(len(jobs), 'cell')}, one by one{beside}")
    with closing(phase.outcomes()) as outcomes:
        for number, (job, done) in enumerate(outcomes, 1):
            if reason := done.died or _write_timed(job.cell, done.value, store):
                failed[job.cell] = reason
            if number * TIMING_LINES // len(jobs) > (number - 1) * TIMING_LINES // len(jobs):
                left = f" ({text})" if number < len(jobs) and (text := phase.left()) else ""
                phase.say(f"[{number}/{len(jobs)}] timed{left}")
    return failed


def _write_timed(cell: Cell, timed: FinishedRecord | str, store: Store) -> str:
    """Complete a record; why not, if not. Raises OSError."""
    if isinstance(timed, str):
        return timed
    try:
        store.update(cell.name, timed)
    except OSError:
        raise
    except Exception as error:
        return reason_of(error)
    return ""


def _first_seed(jobs: Sequence[RunJob]) -> set[RunJob]:
    """The cells of the first seed left to do; none if there is no other: the leaderboard at the end is theirs then."""
    cells = [job for job in jobs if isinstance(job, CellJob)]
    seed = min((job.cell.seed for job in cells), default=None)
    first: set[RunJob] = {job for job in cells if job.cell.seed == seed}
    return first if len(first) < len(cells) else set()


def _trained(job: TrainJob, report: dict) -> str:
    if job.failed(report):
        return f"{job.name}: failed: {report['failure']}"
    accuracy, target = report.get("validation_accuracy"), report.get("target")
    reached = "" if accuracy is None else f": validation accuracy {accuracy:.3f}"  # not of every adapter's tasks
    missed = "" if target is None or report.get("target_met") is not False else f", short of its target {target:.3f}"
    return f"trained {job.cell.where}{reached}{missed}"


def _outcome(cell: Cell, record: Record) -> str:
    if not isinstance(record, FinishedRecord):
        return f"{cell.method.label} on {cell.where}: failed: {record.reason}"
    shares, quality = curve(record)
    middle = len(quality) // 2
    half = f", {quality[middle]:.3f} with {shares[middle]:.0%} of the {removes(record)} removed"
    return (
        f"{cell.method.label} on {cell.where}: {quality_name(record)} {quality[0]:.3f}"
        f"{'' if cell.method.name == 'none' else half}"
    )
