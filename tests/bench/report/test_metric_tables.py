"""Metrics of sub-tasks stand beside each other at the levels of interest, averaged over draws and seeds."""

from __future__ import annotations

import pytest

from bench.report.leaderboard import markdown
from bench.report.tables.metrics import metric_tables


@pytest.fixture
def with_metrics(make_record, changed):
    """A record whose sub-tasks have metrics: of a question task at accuracy ``quality``, and of texts."""

    def make(label, qualities, perplexities, **settings):
        removed = range(0, 9, 8 // (len(qualities) - 1))
        record = make_record(label, quality=[qualities], removed=removed, **settings)
        metrics = [
            [
                {"a/acc": quality / 2, "a/acc_norm": quality, "t_1/byte_perplexity": 2.0, "t_1/word_perplexity": told}
                for quality, told in zip(qualities, perplexities, strict=True)
            ]
        ]
        return changed(record, result={"metrics": metrics})

    return make


def test_one_metric_of_each_sub_task_best_method_first(with_metrics, board_of):
    records = [
        with_metrics("b", (1.0, 0.5, 0.2), (10.0, 1234.56, 9e9)),
        with_metrics("a", (1.0, 0.6, 0.2), (10.0, 20.0, 9e9), seed=0),
        with_metrics("a", (0.5, 0.8, 0.2), (30.0, 40.0, 9e9), seed=1),
        with_metrics("all", (1.0, 0.9, 0.2), (10.0, 20.0, 9e9), neurons=True),
        with_metrics("none", (1.0, 1.0, 1.0), (10.0, 10.0, 10.0)),
    ]
    ((heading, table),) = metric_tables(records)
    assert heading == "4 of 8 units removed"
    assert [[cell.shown for cell in row] for row in table] == [
        ["method", "a, acc norm", "t 1, word perplexity"],
        ["unpruned", "75.0", "20"],  # of two seeds
        ["a", "70.0", "30"],
        ["b", "50.0", "1235"],
        ["all", "90.0", "20"],  # removes neurons too: last
    ]
    assert [cell.value for cell in table[3][1:]] == [50.0, 1234.56]  # files have all digits
    assert "| a        |        70.0 |                   30 |" in markdown(board_of(records))


def test_of_many_levels_the_usual_ones(with_metrics):
    record = with_metrics("a", [1 - level / 10 for level in range(9)], range(1, 10))
    assert [heading[0] for heading, _ in metric_tables([record])] == ["2", "4", "6"]


def test_of_many_levels_those_nearest_to_the_usual_ones(make_record, changed):
    removed = [0, 10, 22, 31, 47, 53, 94, 100]
    record = make_record("a", quality=[[0.5] * len(removed)], removed=removed)
    record = changed(record, result={"metrics": [[{"a/acc": 0.5}] * len(removed)]})
    assert [heading.split()[0] for heading, _ in metric_tables([record])] == ["22", "47", "94"]


def test_perplexity_of_windows_stands_beside_that_of_words(make_record, changed):
    record = make_record("a", quality=[[0.5, 0.4, 0.3]], removed=[0, 4, 8])
    metrics = {"wikitext/word_perplexity": 20.0, "wikitext/bits_per_byte": 1.0, "wikitext/perplexity_2048": 11.25}
    ((_, table),) = metric_tables([changed(record, result={"metrics": [[metrics] * 3]})])
    names, unpruned, _ = table
    assert [cell.shown for cell in names] == ["method", "wikitext, word perplexity", "wikitext, perplexity 2048"]
    assert [cell.shown for cell in unpruned] == ["unpruned", "20", "11.25"]


def test_without_metrics_there_is_no_table(make_record):
    assert metric_tables([make_record("a")]) == []
