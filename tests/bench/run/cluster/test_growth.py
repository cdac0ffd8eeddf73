"""The study of a cluster's growth says what the code gives, and what the schedule must hold."""

from __future__ import annotations

import csv

import pytest

from bench.run.jobs import CellJob, TrainJob
from tests.fixtures.runs import ROOT

STUDIES, PAGE = ROOT / "docs" / "studies", ROOT / "docs" / "cluster.md"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(STUDIES)
    import cluster_growth

    return cluster_growth


@pytest.mark.slow
def test_the_committed_study_is_what_the_code_gives(study):
    with study.TABLE.open(newline="") as file:
        committed = list(csv.DictReader(file))
    jobs, lengths = study.study(seeds=10)
    assert committed == [study.simulated(jobs, lengths, slots).row for slots in study.SLOTS], (
        "run docs/studies/cluster_growth.py, and see what docs/cluster.md says of it"
    )
    # The bound once more, plainly: all work on all slots, or a model with the longest of its cells.
    of_model = {id(job): length for job, length in zip(jobs, lengths, strict=True) if isinstance(job, TrainJob)}
    pairs = [(job, length) for job, length in zip(jobs, lengths, strict=True) if isinstance(job, CellJob)]
    chain = max(of_model[id(job.needs)] + length for job, length in pairs)
    for row in committed:
        bound = max(sum(lengths) / int(row["slots"]), chain) / 3600
        assert float(row["bound_hours"]) == pytest.approx(bound, abs=1e-4)
        assert bound - 1e-4 <= float(row["hours"]) <= 1.125 * bound
    page = " ".join(PAGE.read_text().split())
    worst, idle = (max(float(row[name]) for row in committed) for name in ("over_bound", "over_idle_bound"))
    assert f"at most {worst:.1%} longer than the bound".replace("%", " %") in page
    assert f"the run takes at most {idle:.1%} longer".replace("%", " %") in page
    assert f"only the {len(of_model)} trainings" in page
    assert "\n".join(study.costs()) in PAGE.read_text()
