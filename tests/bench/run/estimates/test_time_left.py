"""The time left is told from relative costs and what the run has seen: near the truth from the tenth cell on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from bench.measure.status import duration
from bench.records.schema import FailedRecord, FinishedRecord
from bench.records.storage.current import finished, read_current
from bench.run.estimates.costs import FILE, Costs, learnt_from
from bench.run.estimates.time_left import UNIT, Estimator
from bench.run.jobs import CellJob, RunJob, TimingJob, TrainJob
from bench.run.phases import Phase
from bench.run.worker import Done
from bench.suites.cells import Cell
from bench.suites.parse import MethodSpec
from bench.suites.plugins import load_plugins
from tasks.request import TaskSpec

COMMITTED = Path(__file__).parents[4] / "results" / "mini"
FLAT = Costs({"train": {}, "timing": {}, "cell": {}, "trains": []})  # every job costs one unit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (41.7, "42 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (150, "2 min"),
        (151, "3 min"),
        (89 * 60, "89 min"),
        (90 * 60, "1 h 30 min"),
        (7260, "2 h 1 min"),
        (90000, "25 h 0 min"),
    ],
)
def test_durations_are_for_people(seconds, text):
    assert duration(seconds) == text


def job(
    kind: type, method: str = "none", task: str = "t", model: str = "model", own: str = "", seed: int = 0
) -> RunJob:
    load_plugins()
    spec = TaskSpec(task=task, model=own)
    cell = Cell(spec, "data", model, MethodSpec(method, {}), seed, (0, 8), 128, 1.0, "cpu", "key")
    return kind(cell, Path(), Path()) if kind is TimingJob else kind(cell, Path())


def test_nothing_seen_gives_nominal_times():
    assert Estimator(FLAT).left([job(CellJob), job(TrainJob)], 1) == 2 * UNIT
    assert Estimator(FLAT).left([], 1) == 0
    assert Estimator(FLAT).left([job(CellJob)], 10**12) == UNIT  # no more at once than there are


def test_relative_costs_are_scaled_by_what_is_seen():
    costs = Costs({"train": {"t": 4.0}, "timing": {"t": 0.5}, "cell": {"t": {"none": 1.0, "ae": 3.0}}, "trains": []})
    estimator = Estimator(costs)
    estimator.saw(job(CellJob, "none"), 10.0)
    for kind, method, seconds in ((CellJob, "ae", 30.0), (TrainJob, "none", 40.0), (TimingJob, "ae", 5.0)):
        assert estimator.seconds(job(kind, method)) == pytest.approx(seconds)
    assert estimator.seconds(job(CellJob, "michel")) == pytest.approx(20.0)  # not known: as others are on average
    assert estimator.seconds(job(CellJob, "ae", task="new")) == pytest.approx(30.0)


def test_what_is_seen_of_a_method_counts_most_for_it():
    estimator = Estimator(FLAT)
    for _ in range(20):
        estimator.saw(job(CellJob, "none"), 2)
        estimator.saw(job(CellJob, "random"), 10)
        estimator.saw(job(CellJob, "random", model="large"), 100)
    found = {
        (method, model): estimator.seconds(job(CellJob, method, model=model))
        for method in ("none", "random", "michel")
        for model in ("model", "large")
    }
    assert found["none", "model"] == pytest.approx(2, rel=0.1)
    assert found["random", "model"] == pytest.approx(10, rel=0.1)
    assert found["random", "large"] == pytest.approx(100, rel=0.1)
    assert found["none", "model"] < found["michel", "model"] < found["random", "large"]
    assert found["none", "large"] > 2 * found["none", "model"]


def test_of_a_model_of_ones_own_only_work_with_it_tells():
    estimator = Estimator(FLAT)
    estimator.saw(job(CellJob, "random"), 2)
    own = {"model": "large", "own": "some/large"}
    assert estimator.left([job(CellJob, **own)], 1) is None
    assert estimator.left([], 1, after=[job(TimingJob, **own)]) is None
    estimator.saw(job(CellJob, "random", **own), 600)
    assert estimator.seconds(job(CellJob, "ae", **own)) > 100


def test_processes_share_the_cells_and_timing_follows_alone():
    estimator = Estimator(FLAT)
    estimator.saw(job(CellJob), 6)
    cells = [job(CellJob)] * 5
    assert estimator.left(cells, 2) == pytest.approx(18)  # three after another
    assert estimator.left(cells, 2, after=[job(TimingJob)] * 2) == pytest.approx(30)
    assert estimator.left(cells, 2, running=[(job(CellJob), 5.0)]) == pytest.approx(18)
    assert estimator.left([], 2, running=[(job(CellJob), 60.0)]) == pytest.approx(0.6)


def test_records_of_before_are_learned_from(make_record):
    def record(label: str, seconds: float, training: float) -> FinishedRecord:
        done = make_record(label)
        times = {"seconds": seconds, "training_seconds": training, "timing_seconds": 2.0}
        return done.model_copy(update={"measured": done.measured.model_copy(update=times)})

    failed = FailedRecord(**make_record("michel").model_dump(include={"cell", "provenance"}), reason="a fault")
    estimator = Estimator(FLAT)
    for each in [failed, *(record("none", 5, 40) for _ in range(20))]:
        estimator.learn(each)
    own = {"task": "classification", "own": "x"}
    assert estimator.seconds(job(CellJob, **own)) == pytest.approx(5, rel=0.1)
    assert estimator.seconds(job(TrainJob, **own)) == pytest.approx(40, rel=0.1)
    assert estimator.seconds(job(TimingJob, **own)) == pytest.approx(2, rel=0.1)


@cache
def recorded() -> list[FinishedRecord]:
    """The committed records; one made before the seconds of timing were recorded has 2.4 times its samples'."""

    def timed(record: FinishedRecord) -> FinishedRecord:
        measured = record.measured
        samples = (each for sizes in measured.latency.samples.values() for each in sizes.values())
        seconds = measured.timing_seconds or 2.4 * sum(map(sum, samples))
        return record.model_copy(update={"measured": measured.model_copy(update={"timing_seconds": seconds})})

    return [timed(record) for record in finished(read_current(COMMITTED)[0])]


def run_again(
    records: list[FinishedRecord], costs: Costs, workers: int, slower: Callable[[FinishedRecord], float]
) -> list[tuple[int, float, float | None]]:
    """The course of a run that takes what was recorded: cells that have ended, seconds left and what is estimated.

    Told after each third job.
    """
    seconds: dict[RunJob, float] = {}
    order: dict[tuple, list[RunJob]] = {}
    for record in sorted(records, key=lambda each: (each.cell.seed, each.cell.task, each.cell.label)):
        of, measured, factor = record.cell, record.measured, slower(record)
        method = MethodSpec(of.method, of.options)
        cell = Cell(TaskSpec(task=of.task), of.data, of.model, method, of.seed, (0,), 128, 1.0, "cpu", "key")
        for kind, took in ((CellJob, measured.seconds), (TimingJob, measured.timing_seconds)):
            seconds[made := kind(cell, Path(), Path())] = took * factor
            order.setdefault((kind,), []).append(made)
        if (of.task, of.seed) not in order:
            seconds[made := TrainJob(cell, Path())] = (measured.training_seconds or 1.0) * factor
            order[of.task, of.seed] = [made]
    trainings = [made for key, (made, *_) in order.items() if len(key) == 2]
    waiting, timing = [*trainings, *order[CellJob,]], order[TimingJob,]

    estimator, now, ended, course = Estimator(costs), 0.0, 0, []
    running: dict[RunJob, float] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            running[waiting.pop(0)] = now
        first = min(running, key=lambda made: running[made] + seconds[made])
        now = running.pop(first) + seconds[first]
        estimator.saw(first, seconds[first])
        ended += isinstance(first, CellJob)
        if len(waiting) % 3 == 0:
            at_work = [(each, now - begun) for each, begun in running.items()]
            course.append((ended, now, estimator.left(waiting, workers, timing, at_work)))
    while timing:
        first = timing.pop(0)
        now += seconds[first]
        estimator.saw(first, seconds[first])
        if len(timing) % 3 == 0:
            course.append((ended, now, estimator.left(timing, 1)))
    return [(count, now - moment, estimate) for count, moment, estimate in course]


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "workers", "uneven"), [(1.0, 2, 0.0), (4.0, 1, 0.0), (0.5, 2, 0.25)])
def test_the_time_left_is_near_the_truth_from_the_tenth_cell_on(machine, workers, uneven):
    """On another machine, too, and if some methods and tasks have become slower or faster than was known."""
    records = [record for record in recorded() if record.cell.label == record.cell.method]  # of the default run
    costs = Costs(learnt_from([record for record in records if record.cell.seed > 4]))

    def slower(record: FinishedRecord) -> float:
        names = (record.cell.method, record.cell.task)
        return machine * (1 + sum(random.Random(name).uniform(-uneven, uneven) for name in names))

    course = run_again([record for record in records if record.cell.seed < 3], costs, workers, slower)
    whole = course[0][1]
    told = [(left, estimate) for ended, left, estimate in course if ended >= 10]
    assert len(told) > 300
    # Of what is nearly done a quarter is less than anybody reads.
    assert [each for each in told if abs(each[1] - each[0]) > max(0.25 * each[0], 0.02 * whole)] == []


def test_the_costs_that_come_with_the_package_know_every_method_and_task():
    costs, known = Costs.shipped(), Costs(learnt_from(recorded()))
    for record in recorded():
        cell = record.cell
        for kind in ("cell", "train", "timing"):
            of = (kind, cell.task, cell.label, cell.trained is not None)
            assert 0.25 < costs.of(*of) / known.of(*of) < 4, (
                of
            )  # else: python -m bench.run.estimates.costs results/mini


def test_costs_of_every_task_with_a_model_of_its_own_are_known():
    content = json.loads(FILE.read_text(encoding="utf-8"))
    for kind in ("train", "timing", "cell"):
        assert content[kind].keys() == {"classification", "harness", "language_id", "mnli", "translation"}


class Ended:
    """An engine whose jobs have these outcomes."""

    slots = machines = 1

    def __init__(self, *outcomes: Done) -> None:
        self.outcomes = outcomes

    def run(self, jobs, watch, say=print, *, apart: bool = False):
        yield from self.outcomes


def test_jobs_that_fail_say_nothing_of_others(make_record):
    record = make_record()
    failed = FailedRecord(cell=record.cell, provenance=record.provenance, reason="ValueError: no")
    jobs = [job(CellJob), job(CellJob, seed=1), job(TrainJob), job(TimingJob), job(CellJob, seed=2)]
    values = [(failed, {}), (record, {}), {"failure": "no"}, "no"]
    estimator = Estimator(FLAT)
    phase = Phase(jobs, Ended(*(Done(place, 0.01 + place, value) for place, value in enumerate(values))), estimator)
    assert len(list(phase.outcomes())) == 4
    alone = Estimator(FLAT)
    alone.saw(jobs[1], 1.01)
    assert estimator.left(jobs, 1) == alone.left(jobs, 1)
