"""The pictures of a report, each with the name of its files, its title and a caption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from bench.analysis.comparing.controls import chooses_at_random
from bench.analysis.curves import curve
from bench.analysis.trade_offs.fronts import SIZE, fronts_of, random_points
from bench.analysis.trade_offs.points import Point
from bench.records.schema import FinishedRecord, TaskKey
from bench.report.board import Board, keeps_all
from bench.report.figures import curves as curve_figures
from bench.report.figures import fronts as front_figures
from bench.report.figures import lines
from bench.report.figures import ranks as rank_figures
from bench.report.figures import traces as trace_figures
from bench.report.figures.canvas import LEVEL
from bench.report.figures.looks import Look, Looks, highlighted
from bench.report.figures.picture import FORMS, Picture, picture
from bench.report.figures.quality_axis import QualityAxis
from bench.report.links import slug, task_slug
from bench.report.scopes import TradeOffScope
from bench.report.standing import Standing

MAIN = (*FORMS, "png")  # also for places that cannot show an SVG
NORMALISED = "quality: 0 chance, 1 unpruned"
Limits = tuple[float | None, float | None] | None
Axis = tuple[str, Limits, Callable[[FinishedRecord], lines.Points | None]]
LATENCY = "latency at batch {}, relative to the unpruned model"
# By name: what is on the x axis in words, its limits, and the points of a record.
AXES: dict[str, Axis] = {
    "heads": ("share of heads removed", (0, 1), lines.by_heads),
    "parameters": ("share of parameters removed", (0, None), lines.by_parameters),
    "latency": (LATENCY.format(32), None, partial(lines.by_speed, batch=32)),
    "size": ("size, relative to the unpruned model", None, lines.by_size),
}
# Also by task. (Li et al. 2021 time models at batch 8.)
TASK_AXES: dict[str, Axis] = AXES | {"latency-b8": (LATENCY.format(8), None, partial(lines.by_speed, batch=8))}


def areas(board: Board, standing: Standing) -> Picture:
    """The main figure."""
    what = "the standard deviation" if standing.area.low is None else "95 % intervals"
    bars = f", with {what} over seeds" if standing.fewest_seeds > 1 else ""
    random = any(chooses_at_random(board.any_of(label).cell) for label in standing.labels)
    caption = f"Area by method{bars}; bands part the tiers{', dotted lines mark random choice' * random}."
    if any(len(tiers.members) > 1 for tiers in standing.tiers.values()):
        caption += (
            " A tier holds what was not shown to keep less than its best, so a method whose area is uncertain may "
            "stand above a better one."
        )
    return picture("areas", "Area by method", caption, partial(rank_figures.areas, board, standing), MAIN)


def overall_curves(board: Board, looks: Looks) -> list[Picture]:
    """Mean over tasks, against each of ``AXES``; latency apart for each machine."""
    pictures = []
    scale = QualityAxis(NORMALISED, 0.0)
    for axis, suffix, where, part in _axes(board, AXES):
        what, limits, points = AXES[axis]
        if drawn := lines.overall(part, points):
            own = highlighted(board, looks, None, {line.label for line in drawn})
            only = board.name(part.averaged[0]) if len(part.averaged) == 1 else ""
            draw = partial(curve_figures.curves, drawn, own, only or "Mean over tasks", what, scale, limits)
            caption = f"Quality against {what}{where}: {only or 'mean over tasks'}{_bands(drawn)}.{_timing(axis)}"
            pictures.append(picture(f"overall-{axis}{suffix}", f"Quality against {what}", caption, draw, MAIN))
    return pictures


def task_curves(board: Board, task: TaskKey, looks: Looks) -> Iterator[Picture]:
    """The same on one task, in the unit of its quality, against each of ``TASK_AXES``, as they are asked for."""
    name = board.name(task)
    scale = QualityAxis.of(board.of_task(task)[0])
    for axis, suffix, where, part in _axes(board, TASK_AXES):
        what, limits, points = TASK_AXES[axis]
        if drawn := lines.of_task(part, task, points):
            own = highlighted(board, looks, task, {line.label for line in drawn})
            draw = partial(curve_figures.curves, drawn, own, name, what, scale, limits)
            caption = f"{name}: {scale.name} against {what}{where}{_bands(drawn)}.{_timing(axis)}"
            forms = FORMS if axis == "heads" else ("svg",)
            yield picture(f"{axis}{suffix}-{task_slug(task)}", f"Quality against {what}", caption, draw, forms)


def _timing(axis: str) -> str:
    """What to make of times, in a sentence."""
    if not axis.startswith("latency"):
        return ""
    return " Which heads are removed hardly changes the time: at the same share, times differ mostly by luck of timing."


def _bands(drawn: Iterable[lines.Line], what: str = "bands") -> str:
    several = any(np.isfinite(line.spread).any() for line in drawn)
    return f", with {what} of one standard deviation over seeds" if several else ""


def _axes(board: Board, axes: Iterable[str]) -> list[tuple[str, str, str, Board]]:
    """Axis, suffix of its files, where it was measured in words, and the records of it."""
    found = []
    for axis in axes:
        if axis.startswith("latency") and len(board.machines) > 1:
            found += [(axis, f"-{n}", f" on {which}", board.on(which)) for n, which in enumerate(board.machines, 1)]
        else:
            found.append((axis, "", "", board))
    return found


def profile(board: Board, standing: Standing, looks: Looks) -> Picture:
    """Performance profile."""
    own = highlighted(board, looks)
    caption = "Share of runs whose area is above each threshold; higher is better."
    return picture("profile", "Performance profile", caption, partial(curve_figures.profile, standing, own))


def pareto(board: Board, standing: Standing) -> Picture:
    """Quality against cost."""
    caption = (
        "Area against the examples sent through the model to score or train; the line joins the methods that no "
        "cheaper one beats. Names are left out where there is no room."
    )
    return picture("pareto", "Quality against cost", caption, partial(rank_figures.pareto, board, standing))


def fronts(scope: TradeOffScope) -> list[Picture]:
    """Points lost against parameters left and, where that was timed, against time at the largest batch size."""
    found, on_fronts = scope.trade_offs, fronts_of(scope.trade_offs)
    largest = [batch for batch in found.batches if f"b{batch}" in on_fronts][-1:]  # controls alone may be timed
    axes: list[tuple[str, str, int | None]] = [(SIZE, "parameters left", None)]
    axes += [(f"b{batch}", f"time of a forward pass at batch {batch}", batch) for batch in largest]
    points = [point for label in found.methods for point in found.points[label]]
    pictures = []
    for axis, what, batch in axes:
        of_kinds = on_fronts[axis]
        timed = [point for point in points if batch is None or batch in point.speedups]
        random = random_points(found) if batch is None else {}
        members = "; ".join(f"{own}: {', '.join(dict.fromkeys(p.label for p in on))}" for own, on in of_kinds.items())
        dotted = ", and dotted ones are random choice of that kind" if random else ""
        caption = (
            f"{scope.name}: points of {scope.quality} lost against {what}{_intervals(timed)}; the lines join the "
            f"methods of a kind that no other one beats{dotted}. "
            f"Beyond {front_figures.LINEAR} points the scale is logarithmic. On the lines: {members}."
            + (f" Methods that remove heads alone have one time at each size. {scope.untimed}" if batch else "")
        )
        title = f"{what}, % of the unpruned model's"
        draw = partial(front_figures.fronts, scope.name, title, of_kinds, timed, random, batch)
        forms = FORMS if batch is None and len(found.tasks) > 1 else ("svg",)
        pictures.append(picture(f"front-{axis}-{scope.slug}", f"Points lost against {what}", caption, draw, forms))
    return pictures


def _intervals(points: Sequence[Point]) -> str:
    return ", with 95 % intervals over seeds" if any(point.lost.low is not None for point in points) else ""


def critical(standing: Standing | None, name: str, blocks: str) -> list[Picture]:
    """Critical differences; none with fewer than two methods, or too few blocks to show any."""
    ranks = standing.ranking if standing else None
    if standing is None or ranks is None or ranks.blocks < ranks.needed:
        return []
    caption = (
        f"Mean ranks; a bar joins methods not shown to differ (Friedman p = {ranks.friedman:.2g}, then Wilcoxon's test "
        "with Holm's correction, at 5 %)."
    )
    return [
        picture(name, "Critical differences", caption, partial(rank_figures.critical_differences, standing, blocks))
    ]


def traces(board: Board, task: TaskKey, looks: Looks) -> list[Picture]:
    """The course of each training at the level nearest to ``LEVEL`` that was recorded; none without any."""
    every = {label: trace_figures.course(board.of(task, label), LEVEL) for label in board.labels}
    found = {label: course for label, course in every.items() if course is not None}
    if not found:
        return []
    what = "accuracy" if all(np.isfinite(course.right).all() for course in found.values()) else "loss"
    caption = (
        f"{board.name(task)}: {what} on training batches and units with an open gate against the step, in trainings "
        f"that keep {trace_figures.kept_in_words(found)} units, mean over seeds. Gates of 0.01 and more are open. "
        "Names are without the options that all lines of a method share."
    )
    draw = partial(trace_figures.courses, found, looks, f"{board.name(task)}: trainings")
    return [picture(f"traces-{task_slug(task)}", "Trainings, step by step", caption, draw)]


def boxes(board: Board, task: TaskKey, label: str, look: Look, forms: Sequence[str] = FORMS) -> list[Picture]:
    """A method against the random control of its kind; none where one of them is missing."""
    records = board.of(task, label)
    if not records or keeps_all(records[0]):
        return []
    random, line = board.controls(label).get("random", ""), lines.of_method(board, task, label, curve)
    if not random or not line or not board.of(task, random):
        return []
    scale = QualityAxis.of(records[0])
    drawn = picture(
        f"random-{slug(label)}-{task_slug(task)}",
        f"{label} against random removal",
        f"{board.name(task)}: {label} (line{_bands([line], 'a band')}) against random removal "
        "(boxes: middle half of all seeds and draws) at each level.",
        partial(curve_figures.boxes, board.of(task, random), line, look, board.name(task), random, scale),
        forms,
    )
    return [drawn]
