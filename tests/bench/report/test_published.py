"""Figures of papers beside those measured here: which records they stand beside, and which rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from bench.records.schema import FinishedRecord
from bench.report.tables.papers import Column, PaperTable, papers
from bench.report.tables.published import PaperComparison, in_markdown, side_by_side
from bench.suites.files import load_suite
from bench.suites.parse import parse_methods

AMP, DSP, GNORM, HIES = (next(p for p in papers() if p.suite == s) for s in ("amp", "dsp", "greedy-gnorm", "hies"))
METRICS = [column.name for column in AMP.tables[0].figures if column.kind == "TASK/METRIC"]
TABLES = [
    pytest.param(paper, table, id=f"{paper.suite}-{place}")
    for paper in papers()
    for place, table in enumerate(paper.tables)
]


def beside_published(records: Sequence[FinishedRecord]) -> str:
    return in_markdown(side_by_side(records))


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines][2:]


def names(comparison: PaperComparison, removed: int) -> list[str]:
    return [row.shown_name for row in comparison.rows if row.removed == removed]


@pytest.fixture
def make(make_record, changed):
    """A record of a method at levels of 32 units, where each accuracy is 0.5 less a hundredth a unit removed."""

    def record(label: str, removed=(0, 3, 7, 10, 32), draws=(0.0,), **cell):
        made = make_record(label=label, removed=removed, quality=[[0.5] * len(removed)] * len(draws), **cell)
        metrics = [
            [dict.fromkeys((*METRICS, "piqa/acc"), 0.5 - count / 100 + draw) for count in removed] for draw in draws
        ]
        return changed(made, result={"units": 32, "metrics": metrics})

    return record


@pytest.fixture
def classifier(make_record):
    """A record of a classifier of 144 units; its accuracy falls by a thousandth, its parameters by ten, a unit."""

    def record(
        label: str, task="mnli", units=144, removed=(0, 14, 43, 72, 132, 144), parameters=109484547, at=0.9, **fields
    ):
        kept = [list(range(units - count)) for count in removed]
        sizes = [{"model": parameters - 10 * count} for count in removed]
        return make_record(
            label=label,
            removed=removed,
            quality=[[at - count / 1000 for count in removed]],
            kept=kept,
            megabytes=[4.0] * len(removed),
            cell={"task": task},
            result={"units": units, "orders": None, "parameters": sizes},
            **fields,
        )

    return record


@pytest.mark.parametrize(("paper", "table"), TABLES)
def test_every_published_figure_says_where_it_is_from(paper, table):
    assert paper.paper and paper.title and re.fullmatch(r"\d{4}\.\d{5}", paper.arxiv)
    assert re.search(r"\b([Tt]able|[Ff]igure)s?\b", table.table)
    said = PaperComparison(paper, table, (), ()).explanation
    assert all(part in said for part in (paper.paper, f"arXiv {paper.arxiv}", table.table))


@pytest.mark.parametrize("change", [{"table": ""}, {"table": None}, {"page": 0}])
def test_a_published_table_must_say_which_it_is(change):
    content = {**DSP.tables[0].model_dump(), **change}
    with pytest.raises(ValidationError, match=next(iter(change))):
        PaperTable.model_validate({key: value for key, value in content.items() if value is not None})


def test_the_page_of_a_published_table_is_shown_where_it_is_known():
    table = DSP.tables[0].model_copy(update={"page": 7})
    assert "(arXiv 2108.04657, Table 3a, page 7)" in PaperComparison(DSP, table, (), ()).explanation
    assert "page" not in PaperComparison(DSP, DSP.tables[0], (), ()).explanation


def test_means_of_a_paper_are_those_of_its_tasks():
    for row in AMP.tables[0].rows:
        *each, mean = row.figures[:6]
        assert "LLaMA-7B" in row.name or sum(each) / len(each) == pytest.approx(mean, abs=0.011), row  # as printed


def test_each_published_row_is_followed_by_what_does_the_same_here(make):
    random = "random:allocation=layer,draws=3,parts=both"
    recovered = ("amp-recovered", "amp-recovered:batch_size=1", "amp-recovered:batch_size=1,choice=random")
    labels = ("none", "amp", "inverse-amp", random, "random-both", *recovered, "michel")
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
        ("random-both", "43.00"),
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


def test_speeds_of_several_machines_are_no_mean_and_stand_in_no_table(make, changed):
    generation = {"samples": {0: [3.0], 7: [2.0], 3: [3.0]}, "prompt": 12, "new": 128}
    records = [changed(make("amp", seed=seed), measured={"generation": generation}) for seed in (0, 1)]
    latency = records[1].measured.latency.model_copy(update={"processor": "B"})
    several = [records[0], changed(records[1], measured={"latency": latency})]
    for made, speed, said in ((records, "1.50", False), (several, "–", True)):
        text = beside_published(made)
        shown = {row[1].replace("\\", ""): row[-1] for row in rows(text) if row[0] == "7 of 32"}
        assert shown["amp"] == speed and shown["AMP (published)"] == "1.19"
        assert ("on several machines" in text) is said


def test_published_rows_are_marked_and_there_are_none_beside_other_tasks(make, changed):
    text = beside_published([make("amp")])
    assert text.count("(published)") == len(AMP.tables[0].rows)
    assert "of LLaMA-2-7B; they were not measured here" in text and "over the 5 tasks" in text
    made = make("amp")
    metrics = [[{"winogrande/acc": 0.5} for _ in draw] for draw in made.result.metrics]
    other = changed(made, result={"metrics": metrics})
    assert beside_published([other]) == "" == beside_published([])


def test_accuracy_by_heads_kept_stands_beside_a_classifier_with_as_many_heads(classifier):
    joint = "dsp-joint:schedule=paper,start=pretrained"
    comparisons = side_by_side([classifier(label) for label in (joint, "dsp-joint", "michel", "none")])
    by_heads, size = (each for each in comparisons if each.paper is DSP)
    assert names(by_heads, 132) == [
        "Michel et al. (published)", "michel", "pipelined DSP (published)", "Voita et al. (published)",
        "STE (published)", "joint DSP (published)", joint,
    ]  # fmt: skip
    figures = {(row.removed, row.shown_name): row.figures for row in by_heads.rows}
    assert figures[132, joint] == pytest.approx((76.8,)) and figures[132, "joint DSP (published)"] == (79.74,)
    assert by_heads.rows[0].shown_name == "unpruned" and by_heads.rows[0].figures == pytest.approx((90.0,))
    assert names(by_heads, 12) == [row.name + " (published)" for row in DSP.tables[0].rows if row.removed == 12]
    (measured,) = [row.figures for row in size.rows if row.name == "michel"]
    assert measured[0] == pytest.approx(100 * 10 * 132 / 109484547)  # per cent of the parameters
    other = side_by_side([classifier("michel", parameters=10**6)])
    assert [each.table.name for each in other if each.paper is DSP] == [by_heads.table.name]  # not of its size


def test_shorter_trainings_and_fewer_examples_are_said(classifier):
    joint = "dsp-joint:schedule=paper,start=pretrained"
    whole = in_markdown(side_by_side([classifier(joint, trained=1.0)]))
    assert "of the task's own training." not in whole and "at most" not in whole
    short = in_markdown(side_by_side([classifier(joint, trained=0.1, limit=200)]))
    assert "Methods that train had 10 % of the task's own training." in short
    assert "Of each split at most 200 examples were used." in short
    assert "mnli: " in short


@pytest.mark.parametrize("other", [{"units": 72, "removed": (0, 36, 66)}, {"task": "classification"}])
def test_other_tasks_and_models_with_fewer_heads_are_not_compared(classifier, other):
    assert side_by_side([classifier("michel", **other)]) == []


def test_tables_of_parameters_stand_beside_the_same_architecture_alone(classifier):
    record = {"task": "language_id", "removed": (0, 105, 144)}
    assert side_by_side([classifier("greedy-gnorm", **record)]) == []
    (found,) = side_by_side([classifier("greedy-gnorm", parameters=278059028, **record)])
    assert found.table.model == "xlm-roberta-base-language-detection"
    assert names(found, 105) == ["Greedy-Gnorm (published)", "greedy-gnorm"]
    assert found.rows[-1].figures[:2] == pytest.approx((79.5, 278059028 - 1050))
    text = in_markdown([found])
    assert " 257395028 |" in text and "Differences in protocol" in text


def test_means_over_tasks_are_of_the_tasks_of_one_model_that_a_method_has_all_of(classifier):
    sst2, mnli = {"task": "classification", "data": "glue:sst2"}, {"data": "glue:mnli", "at": 0.7}
    records = [classifier("hies", **sst2), classifier("hies", **mnli), classifier("tis", **sst2)]
    records += [classifier("hies", data="sst2", task="classification", model="other")]
    records += [classifier("hies", data="imdb", task="classification")]
    both, other = (each for each in side_by_side(records) if each.paper is HIES)
    assert [task.data for task in both.tasks] == ["glue:sst2", "glue:mnli"] and other.tasks[0].model == "other"
    assert names(both, 30) == ["HIS (published)", "HIES (published)", "hies"]  # tis lacks a task
    (mean,) = [row.figures[0] for row in both.rows if row.removed == 30 and not row.published]
    assert mean == pytest.approx((85.7 + 65.7) / 2)
    assert "means over 2 tasks" in both.explanation


def test_copies_of_a_data_set_count_once_in_a_mean_over_tasks(classifier):
    task = {"task": "classification"}
    records = [classifier("hies", data="glue:sst2", **task), classifier("hies", data="sst2", at=0.5, **task)]
    (found,) = side_by_side([*records, classifier("hies", data="glue:mnli", at=0.7)])
    (mean,) = [row.figures[0] for row in found.rows if row.removed == 30 and not row.published]
    assert mean == pytest.approx(((85.7 + 45.7) / 2 + 65.7) / 2)
    assert "means over 2 tasks, each of which is the mean over its copies," in found.explanation


def test_what_a_paper_gives_in_per_cent_is_shown_so(classifier):
    (hies,) = side_by_side([classifier("hies", data="glue:mnli")])
    text = in_markdown([hies])
    assert {row[0] for row in rows(text)} == {"0 %", "10 %", "30 %", "50 %"} and "of 100" not in text
    assert "*removed*: per cent of the heads." in text
    assert "*removed*: of 144 heads." in in_markdown(side_by_side([classifier("michel")]))


def test_a_table_of_which_the_unpruned_model_alone_was_measured_is_not_shown(classifier):
    data = {"data": "glue:mnli"}
    found = side_by_side([classifier("hies", **data), classifier("none", **data)])
    assert [each.paper for each in found] == [HIES]  # and not DSP, whose model and task are the same


def test_the_paper_of_which_most_methods_were_measured_comes_first(classifier):
    methods = ["hies", "tis", "michel"]
    assert [each.paper for each in side_by_side([classifier(m, data="glue:mnli") for m in methods])] == [HIES, DSP, DSP]
    methods += ["dsp-joint:schedule=paper,start=pretrained", "dsp-pipelined:schedule=paper", "ste:start=pretrained"]
    assert [each.paper for each in side_by_side([classifier(m, data="glue:mnli") for m in methods])] == [DSP, DSP, HIES]


def test_a_path_does_not_matter(classifier):
    """What is compared follows from the record's task, units and parameters."""
    for data in ("mnli_mm", "my-rows"):
        assert [each.paper for each in side_by_side([classifier("michel", data=data)])] == [DSP, DSP]


@pytest.mark.parametrize(("paper", "table"), TABLES)
def test_methods_that_do_the_same_exist(paper, table):
    load_suite("mini")
    for labels in table.methods.values():
        for label in labels:
            assert [spec.label for spec in parse_methods(label)] == [label]


@pytest.mark.parametrize(("paper", "table"), TABLES)
def test_the_suite_of_a_paper_measures_every_row_that_has_a_method(paper, table, make, classifier):
    """At the level of the row; AMP's with and without recovery."""
    suite = load_suite(paper.suite)
    units = table.units or 32
    fields = {"units": units, "task": table.task or "mnli", "parameters": table.parameters or 10**8}
    if paper is AMP:
        records = [make(spec.label, removed=suite.removed(units)) for spec in suite.methods]
    else:
        removed = suite.removed(units)
        data = table.data[0] if table.data else "rows"
        records = [classifier(spec.label, removed=removed, data=data, **fields) for spec in suite.methods]
    (found,) = [each for each in side_by_side(records) if each.table is table]
    after: dict[tuple[int, str], int] = {}
    for row in found.rows:
        if row.published:
            last = row.removed, row.name
            after[last] = 0
        elif row.name != "unpruned":
            after[last] += 1
    with_method = {key: number for key, number in after.items() if key[1] in table.methods}
    assert with_method and set(with_method.values()) == {2 if paper is AMP else 1}
    assert {name for _, name in after.keys() - with_method.keys()} <= {
        "unpruned",
        "AMP, LLaMA-7B",
        "Taylor",
        "attribution",
    }


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"columns": ["accuracy", "taste"]}, "column 'taste': expected one of accuracy, mean"),
        ({"columns": ["accuracy", "mean"]}, "expected 2 figures"),
        ({"whole": 3}, "at most 3 removed"),
        ({"methods": {"B": ["ae"]}}, "methods of a row that is not there: B"),
    ],
)
def test_a_table_that_does_not_agree_with_itself_is_refused(fields, complaint):
    given = {"table": "Table 1", "name": "t", "model": "m", "whole": 8, "what": "heads", "columns": ["accuracy"]}
    given |= {"rows": [{"removed": 4, "name": "A", "figures": [1.0]}]}
    assert PaperTable(**given).rows[0].name == "A"
    with pytest.raises(ValueError, match=complaint):
        PaperTable(**(given | fields))


def test_columns_are_read_by_kind():
    assert [Column.of(title).name for title in ("parameters model", "speed-up at batch 8", "a/b", "accuracy")] == [
        "model", "8", "a/b", "",
    ]  # fmt: skip
