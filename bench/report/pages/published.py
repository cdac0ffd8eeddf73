"""The page with papers' figures beside those measured here, and how the protocols differ."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from bench.report.board import Board
from bench.report.figures.picture import Picture, picture
from bench.report.figures.published import PaperCurve, paper_curves
from bench.report.files import Files, files_of
from bench.report.pages.render import render
from bench.report.tables import details
from bench.report.tables.papers import MEAN
from bench.report.tables.published import PaperComparison, Row

FILE = "published.html"
LEAST = 3  # levels of a curve that is drawn


def link(each: PaperComparison, root: str = "") -> str:
    """Link to a comparison on the page; ``root`` leads to the folder of the report."""
    return f"{root}{FILE}#{details.published_name(each)}"


def published_page(board: Board, comparisons: Sequence[PaperComparison]) -> Files:
    """The page with its tables and pictures, by paper; no file where no paper's figures stand beside any record."""
    if not comparisons:
        return {}
    shown = [(each, details.published(board, each), _picture(each)) for each in comparisons]
    grouped = [list(group) for _, group in groupby(shown, key=lambda each: each[0].paper.source)]
    by_paper = [(group[0][0].paper, group) for group in grouped]
    page = render("published.html", title="Published and measured", root="", papers=by_paper)
    return {FILE: page} | files_of([each[2] for each in shown if each[2]], [each[1] for each in shown])


def _picture(each: PaperComparison) -> Picture | None:
    """The curves of the mean or, where there is none, of the first column; None where the paper has too few levels."""
    kinds = [column.kind for column in each.table.figures]
    place = kinds.index(MEAN) if MEAN in kinds else 0
    drawn = _curves(each, place)
    if not any(curve.published and len(curve.x) >= LEAST for curve in drawn):
        return None
    y = each.table.figures[place].heading
    x = f"removed, {each.table.unit}"
    caption = f"{each.table.name}: {y}, as published by {each.paper.source} (dashed), and as measured."
    draw = partial(paper_curves, drawn, each.table.name, x, y)
    return picture(details.published_name(each), each.table.name, caption, draw)


def _curves(each: PaperComparison, place: int) -> list[PaperCurve]:
    """Of each method with figures at some level, those of the column at ``place``."""
    rows: dict[tuple[str, bool], list[Row]] = defaultdict(list)
    group: dict[tuple[str, bool], str] = {}
    last = ""
    for row in each.rows:
        last = row.name if row.published else last
        if row.removed:
            rows[row.name, row.published].append(row)
            group[row.name, row.published] = last  # what a measured row follows is what it does
    return [
        PaperCurve(
            name=of_method[0].shown_name,
            group=group[key],
            published=key[1],
            x=tuple(row.removed for row in of_method),
            y=tuple(row.figures[place] for row in of_method),
        )
        for key, of_method in rows.items()
        if any(not math.isnan(row.figures[place]) for row in of_method)
    ]
