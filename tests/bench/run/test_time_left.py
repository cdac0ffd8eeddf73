"""Estimates of time come from the most similar work seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.measure.status import duration
from bench.records.schema import FailedRecord, FinishedRecord
from bench.run.jobs import CellJob, TrainJob
from bench.run.time_left import NOMINAL, Estimator
from bench.suites.cells import Cell
from bench.suites.parse import MethodSpec
from bench.suites.plugins import load_plugins
from tasks.request import TaskSpec


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


@pytest.fixture
def job():
    load_plugins()

    def make(method: str = "none", data: str = "data", model: str = "model", train: bool = False, own: str = ""):
        cell = Cell(
            TaskSpec(task="t", model=own), data, model, MethodSpec(method, {}), 0, (0, 8), 128, 1.0, "cpu", "key"
        )
        return TrainJob(cell, Path()) if train else CellJob(cell, Path(), Path())

    return make


def test_nothing_seen_gives_nominal_times(job):
    assert Estimator().seconds([job(), job(train=True)], 1) == NOMINAL["cell"] + NOMINAL["train"]
    assert Estimator().seconds([], 1) == 0


def test_the_same_method_on_the_same_data_and_model_counts_most(job):
    estimator = Estimator()
    estimator.saw(job("none"), 2)
    estimator.saw(job("random"), 10)
    estimator.saw(job("random"), 20)
    estimator.saw(job("random", data="other"), 100)
    assert estimator.seconds([job("none")], 1) == 2
    assert estimator.seconds([job("random")], 1) == 15
    assert estimator.seconds([job("michel")], 1) == pytest.approx(32 / 3)  # mean on this data and model
    assert estimator.seconds([job("michel", model="new")], 1) == pytest.approx(32 / 3)  # on this data
    assert estimator.seconds([job("michel", data="new")], 1) == pytest.approx(132 / 4)  # of all cells
    assert estimator.seconds([job(train=True)], 1) == NOMINAL["train"]  # a training is no cell


def test_of_a_model_of_ones_own_only_work_with_it_tells(job):
    estimator = Estimator()
    estimator.saw(job("random", model="other"), 2)
    own = {"model": "large", "own": "some/large"}
    assert estimator.seconds([job(**own)], 1) is None
    estimator.saw(job("random", **own), 600)
    assert estimator.seconds([job(**own), job("ae", **own)], 2) == 600
    assert estimator.seconds([job(**own), job(train=True, **own)], 1) is None


def test_processes_share_the_work(job):
    assert Estimator().seconds([job()] * 6, 3) == 2 * NOMINAL["cell"]


def test_records_of_before_are_learned_from(job, make_record):
    def record(label: str, seconds: float, training: float) -> FinishedRecord:
        done = make_record(label)
        times = {"seconds": seconds, "training_seconds": training}
        return done.model_copy(update={"measured": done.measured.model_copy(update=times)})

    failed = FailedRecord(**make_record("michel").model_dump(include={"cell", "provenance"}), reason="a fault")
    estimator = Estimator([record("none", 3, 0), record("random", 5, 40), failed])
    assert estimator.seconds([job("random")], 1) == 5
    assert estimator.seconds([job(train=True)], 1) == 40
