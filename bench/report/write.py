"""``headbench report``: a folder with everything of a run, which opens from disk."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.records.schema import TaskKey
from bench.records.storage.files import folders_above
from bench.report.board import Board, read_finished, with_results
from bench.report.figures.looks import Looks, looks
from bench.report.files import Files
from bench.report.output import check_place, put
from bench.report.pages.budgets import budget_pages
from bench.report.pages.heads import heads_page
from bench.report.pages.index import index, main_table
from bench.report.pages.method import method_page
from bench.report.pages.published import published_page
from bench.report.pages.records import records_page
from bench.report.pages.render import render, style
from bench.report.pages.task import task_page
from bench.report.parts import run_in_processes
from bench.report.standing import standing
from bench.report.tables.published import PaperComparison, side_by_side
from bench.report.tables.table import latex

NAMED = 5  # most strange files that are named


def report(folder: Path, out: Path) -> Path:
    """Write the report of the records in ``folder`` to ``out``; returns its first page.

    An earlier report is replaced; other files there are left, and named on standard error. Raises InputError where
    there are no results, or ``out`` is no place for a report (``bench.report.output``) or cannot be written: that is
    tried before anything is drawn.
    """
    board = read_finished(folder)
    check_place(out, folder)
    with folders_above(out.resolve() / "index.html", out):
        others = put(build(board, out), out)
    if others:
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        print(f"headbench: left in {out}, as no report wrote it: {', '.join(others[:NAMED])}{more}", file=sys.stderr)
    return out / "index.html"


def build(board: Board, out: Path) -> Files:
    """Every file of the report by its path in it, for a report in the folder ``out``."""
    found, own = standing(board, board.tasks), looks(board)
    published = side_by_side(board.records.values())
    pages = [
        *(partial(_of_task, board, task, own, published) for task in board.tasks),
        partial(budget_pages, board),
        partial(index, board, found, own, published),
        *(partial(method_page, board, label, found, own) for label in board.labels),
        partial(published_page, board, published),
        partial(_records, board, out),
    ]
    files: Files = {"page.css": style().encode()}
    for part in run_in_processes(pages):
        assert files.keys().isdisjoint(part), "a file is made twice"
        files |= part
    return files


def _of_task(board: Board, task: TaskKey, own: Looks, published: Sequence[PaperComparison]) -> Files:
    heads = heads_page(board, task)
    return heads | task_page(board, task, own, bool(heads), published)


def _records(board: Board, out: Path) -> Files:
    return {"records.html": records_page(board, out)}


def main_table_as(board: Board, form: str, sort: str = "area") -> str:
    """The table of all tasks, as one page of HTML or as LaTeX. Raises InputError where there are no results."""
    with_results(board)
    table = main_table(board, standing(board, board.tasks), sort)
    if form == "latex":
        return latex(table).decode()
    rows = tuple(tuple(replace(cell, href="") for cell in row) for row in table.rows)  # there are no other pages
    return render("leaderboard.html", title="Leaderboard", root="", table=replace(table, rows=rows)).decode()
