"""Tables of what fits a budget: one per budget, one with every point, and one with the best of each kind."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from bench.analysis.kinds import KINDS, titled
from bench.analysis.naming import count, fixed, p_equals
from bench.analysis.stats.signflip import samples_needed
from bench.analysis.trade_offs.budgets import (
    ALPHA,
    ROUNDING,
    Budget,
    Fit,
    best_first,
    evenly,
    size_of_smallest,
    within,
)
from bench.analysis.trade_offs.fronts import fronts_of
from bench.analysis.trade_offs.levels import TradeOffs
from bench.analysis.trade_offs.points import Mean, Point
from bench.report.links import method_link, records_link
from bench.report.tables.table import Cell, Heading, Table, name_cell, number_cell

SHOWN = 8  # methods of a kind in the table of a budget
Answer = Mapping[str, Sequence[Fit]]  # by kind, best first
INTERVAL = "95 % bootstrap interval over seeds"


def fitting(trade_offs: TradeOffs, budget: Budget, answer: Answer, areas: Mapping[str, float], root: str) -> Table:
    """The best methods within a budget, at most ``SHOWN`` of each kind."""
    rows, groups = [], []
    exact = budget.measure == "left"
    for own, fits in answer.items():
        for fit in fits[:SHOWN]:
            shown = _columns(trade_offs, fit.point, areas, root)
            certain = [] if exact else [_within(budget.of(fit.point), budget.most)]
            rows.append((*shown[:3], *certain, _more(fit, fits, trade_offs), *shown[3:]))
            groups.append(_group(trade_offs, own, fits, budget))
    heads = _headings(trade_offs)
    sure = [] if exact else [Heading("interval within", "within", "Whether the whole interval is within the budget")]
    apart = Heading(
        "more than the best",
        "more",
        "Points lost beyond the best of the kind"
        + (", at the size that the heading of the kind names" if budget.measure == "lost" else "")
        + ", in the same seeds; p of the sign-flip test, adjusted for all methods of the kind that fit",
    )
    return Table(
        "budget",
        _in_words(trade_offs, budget),
        (*heads[:3], *sure, apart, *heads[3:]),
        tuple(rows),
        groups=tuple(groups),
    )


def every_point(
    trade_offs: TradeOffs, areas: Mapping[str, float], file: str, root: str, most: int | None = None
) -> Table:
    """Every method at every level, or at so many of the levels, controls too, and which fronts of its kind it is on."""
    fronts = fronts_of(trade_offs)
    rows, marks, groups = [], [], []
    levels = sorted({point.removed for points in trade_offs.points.values() for point in points})
    shown = set(levels if most is None else evenly(levels, most))
    for own in KINDS:
        for label in sorted(each for each in trade_offs.points if trade_offs.kinds[each] == own):
            for point in (point for point in trade_offs.points[label] if point.removed in shown):
                on = [axis for axis, members in fronts.items() if point in members.get(own, ())]
                where = ", ".join(on) if on else "–"
                rows.append((*_columns(trade_offs, point, areas, root), Cell(where, where)))
                marks.append(" ".join(["control"] * (label in trade_offs.controls) + ["front"] * bool(on)))
                groups.append(titled(own))
    headings = (
        *_headings(trade_offs),
        Heading(
            "on the front", "front", "Of its kind no other method loses less and is as small, or as fast at batch b"
        ),
    )
    return Table(file, "Every method at every level", headings, tuple(rows), tuple(marks), tuple(groups))


def summary(trade_offs: TradeOffs, answers: Mapping[Budget, Answer], file: str, caption: str) -> Table:
    """For each budget the best method of each kind, with what it loses and how many others cannot be told from it.

    A control that loses less stands beside it.
    """
    kinds = [own for own in KINDS if any(own in answer for answer in answers.values())]
    rows = tuple(
        (
            Cell(in_words(trade_offs, budget), budget.most),
            *(_best(trade_offs, budget, answer[own]) if own in answer else Cell("–", "") for own in kinds),
        )
        for budget, answer in answers.items()
    )
    headings = (Heading("budget", "budget"), *(Heading(own, own, KINDS[own].capitalize()) for own in kinds))
    return Table(file, caption, headings, rows)


def in_words(trade_offs: TradeOffs, budget: Budget) -> str:
    """A budget without what it is a budget of: ``75 % of the parameters (0.53 MB)``."""
    if budget.measure == "lost":
        of = f" ({budget.share:g} % of the unpruned model's)" if budget.share else ""
        return f"{budget.most:.3g} point{'s' * (budget.most != 1)}{of}"
    if budget.measure == "left":
        size = trade_offs.unpruned.megabytes * budget.most
        return f"{100 * budget.most:.1f} %" + ("" if math.isnan(size) else f" ({size:.3g} MB)")
    seconds = trade_offs.unpruned.seconds.get(budget.batch, math.nan) * budget.most
    several = len({task.model for task in trade_offs.tasks}) > 1
    return f"{100 * budget.most:.0f} %" + ("" if several else f" ({1000 * seconds:.3g} ms)")


def lost(point: Point) -> str:
    """Points lost in words: ``1.2 points [0.5, 2.0]``."""
    cell = _estimated(point.lost, 1)
    return f"{cell.shown} points{cell.spread}"


def untold(trade_offs: TradeOffs, fits: Sequence[Fit]) -> str:
    """How many other methods these seeds cannot tell from the best, in words; empty for none."""
    compared = [fit for fit in fits[1:] if fit.more is not None]
    alike = [fit for fit in compared if not fit.shown_apart]
    if not alike:
        return ""
    if all(fit.p is None for fit in compared):
        return f"{count(len(alike), 'other')} not tested, which needs {_needed(trade_offs, fits)} seeds"
    return f"{count(len(alike), 'other')} not told from it"


def _needed(trade_offs: TradeOffs, fits: Sequence[Fit]) -> int:
    """Seeds of each task with which one of those that are compared could be shown to lose more than the best."""
    compared = sum(fit.more is not None for fit in fits)
    return -(-samples_needed(ALPHA, compared) // len(trade_offs.tasks))


def _best(trade_offs: TradeOffs, budget: Budget, fits: Sequence[Fit]) -> Cell:
    best = fits[0].point
    control = better_control(trade_offs, budget, best)
    beside = f"the control {control.label} {lost(control)}" if control else ""
    shown = "; ".join(filter(None, [f" {lost(best)}", beside, untold(trade_offs, fits)]))
    return Cell(best.label, best.label, shown, (("lost", best.lost.value), *_ends(best.lost)))


def _in_words(trade_offs: TradeOffs, budget: Budget) -> str:
    what = {
        "left": "Parameters left: at most ",
        "time": f"Time of a forward pass, batch {budget.batch}: at most ",
        "lost": "Lost: at most ",
    }
    of = {"left": "", "time": " of the unpruned model's", "lost": ""}
    return f"{what[budget.measure]}{in_words(trade_offs, budget)}{of[budget.measure]}"


def random_choice(trade_offs: TradeOffs, budget: Budget, own: str) -> Point | None:
    """Of the controls of a kind that choose at random the one that does best within the budget."""
    return _best_of(trade_offs, budget, own, trade_offs.random)


def better_control(trade_offs: TradeOffs, budget: Budget, best: Point) -> Point | None:
    """The control of the same kind that does best within the budget, where it does better than the ``best`` method."""
    control = _best_of(trade_offs, budget, trade_offs.kinds[best.label], trade_offs.controls)
    if control is None or best_first(trade_offs, [best, control], budget)[0] is best:
        return None
    return control if (control.lost.value, control.left) != (best.lost.value, best.left) else None


def _best_of(trade_offs: TradeOffs, budget: Budget, own: str, labels: Collection[str]) -> Point | None:
    of_kind = (label for label in sorted(labels) if label in trade_offs.points and trade_offs.kinds[label] == own)
    points = [point for label in of_kind if (point := within(trade_offs.points[label], budget))]
    return best_first(trade_offs, points, budget)[0] if points else None


def _group(trade_offs: TradeOffs, own: str, fits: Sequence[Fit], budget: Budget) -> str:
    """The heading of a kind, with the size at which its methods are compared under a budget of quality."""
    some = f"; {SHOWN} of {len(fits)} methods that fit" if len(fits) > SHOWN else ""
    most = size_of_smallest(trade_offs, [fit.point for fit in fits]).most
    size = f"; compared with {100 * most:.1f} % of the parameters left, or fewer"
    return titled(own) + some + size * (budget.measure == "lost" and len(fits) > 1)


def _headings(trade_offs: TradeOffs) -> tuple[Heading, ...]:
    size = [] if math.isnan(trade_offs.unpruned.megabytes) else [Heading("MB", "mb", "Size in MB of 2^20 bytes")]
    speed = (
        Heading(
            f"speed-up, b{batch}",
            f"speedup{batch}",
            f"Batch {batch}, relative to the unpruned model, with its {INTERVAL}; of heads alone, the mean over all "
            "methods with models of this size",
        )
        for batch in trade_offs.batches
    )
    return (
        Heading("method", "method"),
        Heading("removed, %", "removed", "Share of the units that it removes, per cent"),
        Heading("points lost", "lost", f"Quality lost to the unpruned model, points, with its {INTERVAL}"),
        Heading("parameters left, %", "left", "Of all parameters of the model"),
        *size,
        *speed,
        Heading(
            "choosing, s",
            "seconds",
            "Wall seconds of scoring, and of recovery or training at all levels",
        ),
        Heading(
            "passes", "passes", "Examples sent through the model, forward and backward, to score, recover or train"
        ),
        Heading("area", "area", "Mean quality over all shares removed; 0 is chance, 1 the unpruned model"),
    )


def _columns(trade_offs: TradeOffs, point: Point, areas: Mapping[str, float], root: str) -> tuple[Cell, ...]:
    cost = trade_offs.costs[point.label]
    task = trade_offs.tasks[0] if len(trade_offs.tasks) == 1 else None
    return (
        name_cell(point.label, method_link(point.label, root)),
        number_cell(point.removed, 0, factor=100),
        _estimated(point.lost, 1, records_link(point.label, task, root)),
        number_cell(point.left, 1, factor=100),
        *(
            []
            if math.isnan(trade_offs.unpruned.megabytes)
            else [number_cell(point.megabytes, 3 if point.megabytes < 10 else 1)]
        ),
        *(_estimated(point.speedups.get(batch, Mean(math.nan)), 2) for batch in trade_offs.batches),
        number_cell(cost.seconds, 2 if cost.seconds < 10 else 0, missing="several machines"),
        number_cell(cost.passes, 0),
        number_cell(areas.get(point.label, math.nan), 3),
    )


def _estimated(mean: Mean, digits: int, href: str = "") -> Cell:
    ends = None if mean.low is None or mean.high is None else (mean.low, mean.high)
    return number_cell(mean.value, digits, ends=ends, href=href)


def _ends(lost: Mean) -> tuple[tuple[str, float], ...]:
    """Both ends of an interval, by the names of their columns in a file."""
    return () if lost.low is None or lost.high is None else (("lost_low", lost.low), ("lost_high", lost.high))


def _within(mean: Mean, most: float) -> Cell:
    shown = "–" if mean.high is None else "yes" if mean.high <= most + ROUNDING else "no"
    return Cell(shown, shown)


def _more(fit: Fit, fits: Sequence[Fit], trade_offs: TradeOffs) -> Cell:
    """The points beyond the best's with their p-value, or that the two cannot be told apart."""
    if fit.more is None:
        return Cell("–", math.nan)
    if fit.p is None:
        return Cell(fixed(fit.more, 1, "+"), fit.more, f" (needs {_needed(trade_offs, fits)} seeds)")
    told = "" if fit.shown_apart else ", not distinguishable"
    return Cell(fixed(fit.more, 1, "+"), fit.more, f" ({p_equals(fit.p)}{told})", (("p", fit.p),))
