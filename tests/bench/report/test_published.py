"""Figures of a paper beside those measured here: each row with the methods that do the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.records.schema import FinishedRecord
from bench.report.tables.published import in_markdown, papers, side_by_side
from bench.suites.files import load_suite

(AMP,) = papers()


def beside_published(records: Sequence[FinishedRecord]) -> str:
    return "\n".join(in_markdown(paper, rows) for paper, rows in side_by_side(records))


@pytest.fixture
def make(make_record, changed):
    """A record of a method at levels of 32 units, where each accuracy is 0.5 less a hundredth a unit removed."""

    def record(label: str, removed=(0, 3, 7, 10, 32), draws=(0.0,), **cell):
        made = make_record(label=label, removed=removed, quality=[[0.5] * len(removed)] * len(draws), **cell)
        metrics = [
            [dict.fromkeys((*AMP.metrics, "piqa/acc"), 0.5 - count / 100 + draw) for count in removed] for draw in draws
        ]
        return changed(made, result={"units": 32, "metrics": metrics})

    return record


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")][2:]


def test_means_of_a_paper_are_those_of_its_tasks():
    for paper in papers():
        for row in paper.rows:
            *each, mean = row.accuracies
            assert len(each) == len(paper.metrics)
            assert row.model or sum(each) / len(each) == pytest.approx(mean, abs=0.011), row  # as printed
        assert set(paper.methods) <= {row.name for row in paper.rows}


def test_each_published_row_is_followed_by_what_does_the_same_here(make):
    random = "random:allocation=layer,draws=3,parts=both"
    recovered = ("amp-recovered", "amp-recovered:batch_size=1", "amp-recovered:batch_size=1,choice=random")
    labels = ("none", "amp", "inverse-amp", random, *recovered, "michel")
    table = rows(beside_published([make(label) for label in labels]))
    seven = [(row[1].replace("\\", ""), row[2]) for row in table if row[0] == "7 of 32"]
    assert seven == [
        ("AMP (published)", "61.56"),
        ("amp", "43.00"),
        ("amp-recovered", "43.00"),
        ("amp-recovered:batch_size=1", "43.00"),
        ("AMP, LLaMA-7B (published)", "–"),
        ("random (published)", "58.72"),
        ("amp-recovered:batch_size=1,choice=random", "43.00"),
        (random, "43.00"),
        ("reversed (published)", "47.91"),
        ("inverse-amp", "43.00"),
    ]
    assert [row[1] for row in table[:3]] == ["unpruned (published)", "unpruned", "AMP (published)"]
    assert [row[1] for row in table if row[0] == "30 of 32"] == ["heads alone (published)"]  # not measured


def test_draws_and_seeds_are_averaged_and_accuracies_are_per_cent(make):
    records = [make("amp", draws=(0.0, 0.1)), make("amp", draws=(0.05, 0.25), seed=1)]
    (row,) = [row for row in rows(beside_published(records)) if row[:2] == ["3 of 32", "amp"]]
    assert row[2:] == ["57.00"] * 6 + ["–"]


def test_the_speed_of_generation_is_at_the_same_level(make, changed):
    samples = {0: [3.0, 2.0, 4.0], 7: [2.0, 1.0, 3.0], 3: [3.0]}
    record = changed(make("amp"), measured={"generation": {"samples": samples, "prompt": 12, "new": 128}})
    speed = {row[0]: row[-1] for row in rows(beside_published([record])) if row[1] in ("amp", "unpruned")}
    assert speed == {"0 of 32": "1.00", "3 of 32": "1.00", "7 of 32": "1.50", "10 of 32": "–"}
    assert [row[-1] for row in rows(beside_published([record])) if row[:2] == ["7 of 32", "AMP (published)"]] == [
        "1.19"
    ]


def test_published_rows_are_marked_and_there_are_none_beside_other_tasks(make, changed):
    text = beside_published([make("amp")])
    assert text.count("(published)") == len(AMP.rows) and "of LLaMA-2-7B; they were not measured here" in text
    made = make("amp")
    metrics = [[{"winogrande/acc": 0.5} for _ in draw] for draw in made.result.metrics]
    other = changed(made, result={"metrics": metrics})
    assert beside_published([other]) == "" == beside_published([])


def test_every_row_of_the_suites_own_model_is_measured_by_it(make):
    """The suite of AMP runs methods for each published row, with and without recovery, at the level of the row."""
    suite = load_suite("amp")
    records = [make(spec.label, removed=suite.removed(32)) for spec in suite.methods]
    table = rows(beside_published(records))
    after: dict[tuple[str, str], int] = {}
    for row in table:
        if "(published)" in row[1]:
            last = (row[0], row[1].removesuffix(" (published)"))
            after[last] = 0
        else:
            after[last] += 1
    assert after.pop(("0 of 32", "unpruned")) == 1 and after.pop(("7 of 32", "AMP, LLaMA-7B")) == 0
    assert set(after.values()) == {2}
