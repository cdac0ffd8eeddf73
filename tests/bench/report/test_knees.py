"""Inflection points in a report: on the page of a task, and as a table."""

from __future__ import annotations

import csv

import pytest

from bench.report.figures.looks import looks
from bench.report.pages.task import task_page
from bench.report.tables.knees import inflections

EVERY = list(range(9))


@pytest.fixture
def every(make_record):
    """A record after every removal, whose quality stays at 0.9 until ``turn`` units are removed, then falls."""

    def record(label: str, turn: int, seed: int = 0, **fields):
        quality = [[0.9] * (turn + 1) + [0.3] * (8 - turn)]
        return make_record(label=label, removed=EVERY, quality=quality, seed=seed, **fields)

    return record


def test_points_are_means_over_seeds_and_the_farthest_comes_first(every, make_record, board_of):
    records = [every("ae", 5), every("ae", 6, 1), every("gnorm", 7), every("gnorm", 7, 1)]
    records += [make_record("none", removed=EVERY, quality=[[0.9] * 9]), make_record("michel")]
    board = board_of(records)
    table = inflections(board, board.tasks[0])
    assert table is not None
    assert [(row[0].shown, row[1].shown, row[2].shown, row[4].shown) for row in table.rows] == [
        ("gnorm", "7.0", "87.5", "0.0"),
        ("ae", "5.5", "68.8", "0.0"),
    ]
    assert [row[1].spread for row in table.rows] == [" ±0.0", " ±0.7"]
    assert [row[3].shown for row in table.rows] == ["90.0", "90.0"]


def test_there_is_no_table_where_other_levels_were_measured(make_record, board_of):
    board = board_of([make_record("michel")])
    assert inflections(board, board.tasks[0]) is None


@pytest.mark.usefixtures("undrawn")
def test_they_are_on_the_page_of_the_task_and_in_a_file(every, board_of, parse):
    board = board_of([every("ae", 5), every("gnorm", 7)])
    files = task_page(board, board.tasks[0], looks(board))
    (page,) = [parse(content.decode()) for name, content in files.items() if name.endswith(".html")]
    assert "inflections" in page.ids and "farthest from the chord" in page.text
    (file,) = [content.decode() for name, content in files.items() if "/inflections-" in name and name.endswith(".csv")]
    rows = [(row["method"], row["removed"]) for row in csv.DictReader(file.splitlines())]
    assert rows == [("gnorm", "7"), ("ae", "5")]
