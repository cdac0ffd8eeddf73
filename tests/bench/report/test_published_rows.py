"""Figures of a paper stand beside ours where the records hold its tasks, and are marked."""

from __future__ import annotations

import csv

import pytest

from bench.report.board import read
from bench.report.tables import details as detail_tables
from bench.report.tables.published import METRICS, ROWS
from bench.report.write import report

LABELS = ("amp", "inverse-amp", "random")


@pytest.fixture
def fits(write):
    """A run whose records hold the five tasks of the paper: each accuracy is 0.8 at first and falls by 0.1 a level."""

    def make(metrics=METRICS):
        for label in LABELS:
            folder = write(label, 70, neurons=label != "random")
        board = read(folder)
        for record in board.records.values():
            record["result"]["removed"] = [0, 3, 7, 10, 32]
            record["result"]["units"] = 32
            draws = len(record["result"]["quality"])
            record["result"]["metrics"] = [[dict.fromkeys(metrics, 0.8 - 0.1 * n) for n in range(5)]] * draws
            record["measured"]["generation"] = {"samples": {"0": [3.0], "7": [2.0]}}
        return board

    return make


def test_published_rows_are_marked_and_followed_by_ours(fits):
    board = fits()
    table = detail_tables.published(board, board.tasks[0])
    assert table is not None and "arXiv 2504.21174" in table.caption
    published = [row for row, mark in zip(table.rows, table.marks, strict=True) if mark == "published"]
    assert [row[0].shown for row in published] == [f"{row.name} (published)" for row in ROWS]
    assert [[cell.value for cell in row[3:9]] for row in published] == [list(row.accuracies) for row in ROWS]
    assert {row[1].value for row in published} == {"published"} and not any(row[0].href for row in published)
    ours = {(row[0].shown, row[2].shown): row for row, mark in zip(table.rows, table.marks, strict=True)
            if mark == "measured"}  # fmt: skip
    seven = ours["amp", "7 of 32"]
    assert [cell.value for cell in seven[3:9]] == pytest.approx([60.0] * 6) and seven[9].value == pytest.approx(1.5)
    assert seven[0].href and seven[1].value == "measured" and ours["unpruned", "0 of 32"][3].value == pytest.approx(80)


def test_records_without_all_of_its_tasks_stand_alone(fits):
    board = fits(METRICS[:-1])
    assert detail_tables.published(board, board.tasks[0]) is None


@pytest.mark.usefixtures("undrawn")
def test_the_pages_show_them_and_say_whose_they_are(fits, monkeypatch, parse):
    for metrics, said in ((METRICS[:-1], "none is a paper's"), (METRICS, "those marked as published")):
        board = fits(metrics)
        monkeypatch.setattr("bench.report.write.read", lambda _, board=board: board)
        out = report(board.folder, board.folder / "report").parent
        first = parse((out / "index.html").read_text())
        assert said in first.text
    (link,) = [link for link in first.links if link.endswith("#published")]
    page = parse((out / link.partition("#")[0]).read_text())
    table = next(found for found in page.tables if found[0][1][0] == "origin")
    assert [row[1][0] for row in table[1:3]] == ["published", "measured"]
    assert "published" in page.ids and "were not measured here" in page.text
    (written,) = out.glob("tables/*-published.csv")
    rows = list(csv.DictReader(written.open(newline="")))
    assert (rows[0]["method"], rows[0]["origin"]) == ("unpruned (published)", "published")
