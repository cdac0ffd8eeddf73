"""``headbench report``: a folder with everything of a run, which opens from disk."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from bench.records.errors import InputError
from bench.report.board import Board, read_finished
from bench.report.figures import gallery, lines
from bench.report.files import Files
from bench.report.pages.index import index, main_table
from bench.report.pages.method import method_page
from bench.report.pages.records import records_page
from bench.report.pages.render import GENERATOR, render, style
from bench.report.pages.task import task_page
from bench.report.standing import standing
from bench.report.tables.table import latex


def report(folder: Path, out: Path) -> Path:
    """Write the report of the records in ``folder`` to ``out``; returns its first page.

    An earlier report is replaced. Raises InputError where there are no results, or ``out`` holds something else.
    """
    board = read_finished(folder)
    if out.exists() and not _is_report(out):
        raise InputError(f"{out}: not a report, so it is not replaced: give another folder by --out")
    files, place = build(board, out), out.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as temporary:
        fresh, former = Path(temporary) / "new", Path(temporary) / "old"
        for name, content in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_bytes(content)
        former.mkdir()
        place.mkdir(exist_ok=True)  # the folder itself is kept: it may be someone's working directory
        for source, target in ((place, former), (fresh, place)):
            for each in sorted(source.iterdir()):
                each.rename(target / each.name)
    return out / "index.html"


def build(board: Board, out: Path) -> Files:
    """Every file of the report by its path in it, for a report in the folder ``out``."""
    found, looks = standing(board, board.tasks), lines.looks(board)
    files: Files = {"page.css": style().encode(), "records.html": records_page(board, out)}
    by_task = []
    for task in board.tasks:
        curves = gallery.task_curves(board, task, looks)
        by_task += curves[:1]
        files |= task_page(board, task, looks, curves)
    for label in board.labels:
        files |= method_page(board, label, found, looks)
    return files | index(board, found, looks, by_task)


def main_table_as(folder: Path, form: str, sort: str = "area") -> str:
    """The table of all tasks, as one page of HTML or as LaTeX. Raises InputError where there are no results."""
    board = read_finished(folder)
    table = main_table(board, standing(board, board.tasks), sort)
    if form == "latex":
        return latex(table).decode()
    rows = tuple(tuple(replace(cell, href="") for cell in row) for row in table.rows)  # there are no other pages
    return render("leaderboard.html", title="Leaderboard", root="", table=replace(table, rows=rows)).decode()


def _is_report(out: Path) -> bool:
    """Whether a folder is a report, or is empty."""
    if not out.is_dir():
        return False
    first = out / "index.html"
    return not any(out.iterdir()) or (first.is_file() and GENERATOR in first.read_text(encoding="utf-8")[:2000])
