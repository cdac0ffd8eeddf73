"""The built-in suite is worth running: trained by the command line as a newcomer would, judged by its records alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bench.__main__ import main
from bench.analysis.curves import curve
from bench.records.schema import FinishedRecord
from bench.records.storage.current import finished, read_current
from tests.fixtures.slow import slow_cases

ENOUGH = {
    "classification": 0.95,
    "harness": 0.95,
    "language_id": 0.95,
    "mnli": 0.90,
}  # test accuracy of the unpruned model


COMMITTED = Path(__file__).parents[3] / "results" / "mini"


# One task is learnt here, too: another platform trains other weights than those of the committed records.
on_each_task = pytest.mark.parametrize(
    ("records", "task"),
    [*slow_cases(("trained here", "mnli")), *(("committed", task) for task in ENOUGH)],
    indirect=["records"],
    scope="module",
)


@pytest.fixture(scope="module")
def records(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[FinishedRecord]:
    """Records of ``none`` and ``random``: one seed of one task, trained here; and the committed ones, of every task."""
    if request.param == "committed":
        return list(finished(read_current(COMMITTED)[0]))
    out = tmp_path_factory.mktemp("mini")
    former = os.environ.get("HEADBENCH_CACHE")
    os.environ["HEADBENCH_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    try:
        flags = ["--seeds", "1", "--levels", "0.5", "--no-latency", "--device", "cpu", "--out", str(out)]
        assert main(["run", "--tasks", "mnli", "--methods", "none,random", *flags]) == 0
    finally:
        os.environ.pop("HEADBENCH_CACHE")
        if former is not None:
            os.environ["HEADBENCH_CACHE"] = former
    assert [path.name for path in Path(out).rglob("*.headbench-tmp")] == []
    return list(finished(read_current(out)[0]))


def _of(records: list[FinishedRecord], method: str, task: str) -> list[FinishedRecord]:
    found = [r for r in records if r.cell.label == method and r.cell.task == task]
    assert [record.cell.seed for record in found] in ([0], list(range(10)))
    return found


@on_each_task
def test_every_seed_learns_its_task(records: list[FinishedRecord], task: str) -> None:
    for record in _of(records, "none", task):
        assert record.result.quality[0][0] >= ENOUGH[task], record.cell.seed


@on_each_task
def test_without_heads_accuracy_is_chance(records: list[FinishedRecord], task: str) -> None:
    for record in _of(records, "random", task):
        assert abs(np.array(record.result.quality)[:, -1] - record.result.chance).max() <= 0.03


@on_each_task
def test_half_of_the_heads_at_random_cost_ten_points(records: list[FinishedRecord], task: str) -> None:
    losses = []
    for record in _of(records, "random", task):
        share, quality = curve(record)
        losses.append(quality[0] - quality[list(share).index(0.5)])
    assert np.mean(losses) >= 0.10
