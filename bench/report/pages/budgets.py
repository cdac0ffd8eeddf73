"""Pages that answer which method fits a budget: one for all scopes, and one for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.analysis.kinds import KINDS
from bench.analysis.naming import all_of_one_model, number_of_seeds, seeds_in_words
from bench.analysis.trade_offs.budgets import Budget, Fit
from bench.analysis.trade_offs.points import Point
from bench.report.board import Board
from bench.report.figures import gallery
from bench.report.figures.picture import Picture
from bench.report.files import Files, files_of
from bench.report.pages.render import render
from bench.report.scopes import TradeOffScope, scopes
from bench.report.tables import budgets as tables
from bench.report.tables.table import Table

MOST = 12  # levels in the table of all points of a page; its files have all
TITLE = "Which method fits a budget?"
MEASURES = {"left": "parameters left", "time": "time, batch ", "lost": "points lost"}


def budget_pages(board: Board) -> Files:
    """``budgets.html`` and a page for each scope in the folder ``budgets``, with pictures and tables."""
    found = scopes(board)
    files: Files = {}
    parts: list[tuple[TradeOffScope, list[Picture], Table]] = []
    for place, scope in enumerate(found):
        pictures = gallery.fronts(scope)
        points = tables.every_point(scope.trade_offs, scope.areas, f"points-{scope.slug}", "../")
        sizes = {budget: fits for budget, fits in scope.answers.items() if budget.measure == "left"}
        what = f"{scope.name}: what loses least, controls apart, by parameters left"
        best = tables.summary(scope.trade_offs, sizes, f"budgets-{scope.slug}", what)
        page = render(
            "budget.html",
            title=f"Which method fits a budget: {scope.name}",
            root="../",
            scope=scope,
            tasks=[board.name(task) for task in scope.trade_offs.tasks],
            seeds=_seeds(board, scope),
            budgets=[_budget(scope, budget, fits) for budget, fits in scope.answers.items()],
            shown=tables.SHOWN,
            fronts=pictures,
            points=tables.every_point(scope.trade_offs, scope.areas, points.name, "../", MOST),
            every=len(points.rows),
        )
        files |= {f"budgets/{scope.slug}.html": page} | files_of(pictures, [points, best])
        parts.append((scope, pictures[:1] if not place else [], best))
    return files | {"budgets.html": render("budgets.html", title=TITLE, root="", parts=parts)}


def _budget(scope: TradeOffScope, budget: Budget, fits: Mapping[str, Sequence[Fit]]) -> dict[str, Any]:
    """What a page shows of one budget."""
    return {
        "group": MEASURES[budget.measure] + (str(budget.batch) if budget.batch else ""),
        "option": f"at most {tables.in_words(scope.trade_offs, budget)}",
        "said": [(f"{own}, {KINDS[own]}", _said(scope, budget, own, of_kind)) for own, of_kind in fits.items()],
        "table": tables.fitting(scope.trade_offs, budget, fits, scope.areas, "../"),
    }


def _said(scope: TradeOffScope, budget: Budget, own: str, fits: Sequence[Fit]) -> str:
    """The best of a kind, how many others the seeds cannot tell from it, and what controls do."""
    best, others = fits[0].point, tables.untold(scope.trade_offs, fits)
    rest = f" ({others})" if others else ""
    random = tables.random_choice(scope.trade_offs, budget, own)
    beside = f" Random choice ({random.label}) {_does(random, budget)}." if random else ""
    control = tables.better_control(scope.trade_offs, budget, best)
    better = f" A control does better: {control.label} {_does(control, budget)}." if control else ""
    return f"{best.label} {_does(best, budget, most=True)}{rest}.{better}{beside if control != random else ''}"


def _does(point: Point, budget: Budget, most: bool = False) -> str:
    """What is said of a point within a budget; ``most`` of the best."""
    if budget.measure == "lost":
        return f"leaves {'as few parameters as any, ' * most}{100 * point.left:.1f} %, and loses {tables.lost(point)}"
    return f"loses {'least, ' * most}{tables.lost(point)}"


def _seeds(board: Board, scope: TradeOffScope) -> str:
    """The seeds of the scope in words, and what they are where there is one model."""
    sets = list(scope.trade_offs.seeds.values())
    told = seeds_in_words(sets[0]) if len(set(sets)) == 1 else number_of_seeds(sets)
    drawn = all_of_one_model(map(board.of_task, scope.trade_offs.tasks))
    return f"{told} ({drawn})" if drawn else told
