"""Figures of a paper stand beside ours where the records hold its tasks, and are marked."""

from __future__ import annotations

import csv

import pytest

from bench.report.board import Board, read
from bench.report.tables import details as detail_tables
from bench.report.tables.papers import papers
from bench.report.tables.published import side_by_side
from bench.report.write import report

LABELS = ("amp", "inverse-amp", "random")
(AMP,) = (paper.tables[0] for paper in papers() if paper.suite == "amp")
METRICS = [column.name for column in AMP.figures if column.kind == "TASK/METRIC"]


@pytest.fixture
def fits(write, changed):
    """A run whose records hold the five tasks of the paper: each accuracy is 0.8 at first and falls by 0.1 a level."""

    def make(metrics=METRICS):
        for label in LABELS:
            folder = write(label, 70, neurons=label != "random")
        board = read(folder)
        generation = {"samples": {0: [3.0], 7: [2.0]}, "prompt": 12, "new": 128}
        accuracies = [dict.fromkeys(metrics, 0.8 - 0.1 * n) for n in range(5)]
        records = {
            path: changed(
                record,
                result={
                    "removed": [0, 3, 7, 10, 32],
                    "units": 32,
                    "shape": [16, 16],
                    "orders": record.result.orders and [list(range(32)) for _ in record.result.orders],
                    "metrics": [accuracies] * len(record.result.quality),
                },
                measured={"generation": generation},
            )
            for path, record in board.records.items()
        }
        return Board(board.folder, records)

    return make


def test_published_rows_are_marked_and_followed_by_ours(fits):
    board = fits()
    (task,) = board.tasks
    (found,) = side_by_side(board.of_task(task))
    table = detail_tables.published(board, found)
    assert "arXiv 2504.21174" in table.caption
    published = [row for row, mark in zip(table.rows, table.marks, strict=True) if mark == "published"]
    assert [row[0].shown for row in published] == [f"{row.name} (published)" for row in AMP.rows]
    shown = [[cell.value for cell in row[3:]] for row in published]
    assert shown == [pytest.approx(list(row.figures), nan_ok=True) for row in AMP.rows]
    assert {row[1].value for row in published} == {"published"} and not any(row[0].href for row in published)
    ours = {(row[0].shown, row[2].shown): row for row, mark in zip(table.rows, table.marks, strict=True)
            if mark == "measured"}  # fmt: skip
    seven = ours["amp", "7 of 32"]
    assert [cell.value for cell in seven[3:9]] == pytest.approx([60.0] * 6) and seven[9].value == pytest.approx(1.5)
    assert seven[0].href and seven[1].value == "measured" and ours["unpruned", "0 of 32"][3].value == pytest.approx(80)


def test_seeds_count_alike_in_the_unpruned_row(fits, changed):
    """However many methods have them, and whichever is first."""
    board = fits()
    (other,) = (record for record in board.records.values() if record.cell.label == LABELS[1])
    metrics = [[dict.fromkeys(METRICS, 0.5)] * 5]
    (found,) = side_by_side([*board.records.values(), changed(other, cell={"seed": 1}, result={"metrics": metrics})])
    rows = [row.figures[:6] for row in found.rows if row.name == "unpruned" and not row.published]
    assert rows and all(row == pytest.approx([65.0] * 6) for row in rows)


def test_records_without_all_of_its_tasks_stand_alone(fits):
    board = fits(METRICS[:-1])
    assert side_by_side(board.of_task(board.tasks[0])) == []


@pytest.mark.usefixtures("undrawn")
def test_the_pages_show_them_and_say_whose_they_are(fits, monkeypatch, parse):
    for metrics, said in ((METRICS[:-1], "none is from a paper"), (METRICS, "those marked as published")):
        board = fits(metrics)
        monkeypatch.setattr("bench.report.write.read_finished", lambda _, board=board: board)
        out = report(board.folder, board.folder / "report").parent
        first = parse((out / "index.html").read_text())
        assert said in first.text
    assert "published.html" in first.links
    page = parse((out / "published.html").read_text())
    table = next(found for found in page.tables if found[0][1][0] == "origin")
    assert [row[1][0] for row in table[1:3]] == ["published", "measured"]
    assert "were not measured here" in page.text and "by LoRA before it evaluates it" in page.text
    of_task = [parse(path.read_text()) for path in (out / "tasks").glob("*.html")]
    (link,) = [link for found in of_task for link in found.links if "published.html#" in link]
    assert link.removeprefix("../published.html#") in page.ids
    (written,) = out.glob("tables/published-*.csv")
    rows = list(csv.DictReader(written.open(newline="")))
    assert (rows[0]["method"], rows[0]["origin"]) == ("unpruned (published)", "published")
    assert [path.suffix for path in out.glob("figures/published-*")]  # as AMP's paper has three levels
