"""What budgets are asked of: each task by itself, and the mean over tasks that share their levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.analysis.machines import machines
from bench.analysis.naming import count
from bench.analysis.quality import ACCURACY, CHANCE_ERRORS, quality_name
from bench.analysis.trade_offs.budgets import Budget, Fit, answer, loss_budgets, size_budgets, time_budgets
from bench.analysis.trade_offs.levels import TradeOffs, sharing_levels, trade_offs
from bench.records.schema import TaskKey
from bench.report.board import Board
from bench.report.links import task_slug

MEAN = "mean"  # file name of the mean over tasks; those of tasks have dots


@dataclass(frozen=True)
class TradeOffScope:
    """The trade-offs of one task or of a mean over tasks.

    areas: by label. answers: for each budget the methods that meet it, by kind, best first. untimed: why nothing is
    said of speed, or of which methods, in a sentence; empty where speed is known.
    """

    slug: str
    name: str
    quality: str
    trade_offs: TradeOffs
    areas: Mapping[str, float]
    answers: Mapping[Budget, Mapping[str, Sequence[Fit]]]
    untimed: str
    at_chance: str


def scopes(board: Board) -> list[TradeOffScope]:
    """Means over tasks first, then tasks; none where no method was measured with some heads removed and some left.

    Tasks whose unpruned model is no better than chance are in no mean.
    """
    groups = sharing_levels(record for task in board.averaged for record in board.of_task(task))
    of_groups = [
        _scope(board, group, MEAN if not number else f"{MEAN}-{number + 1}") for number, group in enumerate(groups)
    ]
    found = [*of_groups, *(_scope(board, [task], task_slug(task)) for task in board.tasks)]
    return [scope for scope in found if any(scope.trade_offs.points[label] for label in scope.trade_offs.methods)]


def _scope(board: Board, tasks: Sequence[TaskKey], slug: str) -> TradeOffScope:
    records = [record for task in tasks for record in board.of_task(task)]
    timed_on = machines(records)
    found = trade_offs(records, timed=len(timed_on) == 1)
    quality = quality_name(records[0])
    budgets = [
        *size_budgets(found),
        *(budget for batch in found.batches for budget in time_budgets(found, batch)),
        *loss_budgets(found, quality == ACCURACY),
    ]
    several = len(tasks) > 1
    low = board.at_chance.get(tasks[0], "") if not several else ""
    return TradeOffScope(
        slug=slug,
        name=f"mean over {len(tasks)} tasks" if several else board.name(tasks[0]),
        quality=quality,
        trade_offs=found,
        areas=_areas(board, found),
        answers={budget: answer(found, budget) for budget in budgets},
        untimed=_untimed(len(timed_on), found),
        at_chance=low
        and f"The unpruned model is not better than chance by {CHANCE_ERRORS} standard errors ({low}), so what is lost "
        "here says little.",
    )


def _areas(board: Board, trade_offs: TradeOffs) -> dict[str, float]:
    """Mean area over tasks of the mean over seeds, those of all else that is said; NaN where a task has no area."""

    def area(label: str, task: TaskKey, seed: int) -> float:
        return board.areas.get((*task, label, seed), math.nan)

    return {
        label: fmean(fmean(area(label, task, seed) for seed in seeds) for task, seeds in trade_offs.seeds.items())
        for label in trade_offs.methods
    }


def _untimed(machines: int, trade_offs: TradeOffs) -> str:
    if machines > 1:
        return "Latency was measured on several machines, so that nothing is said of speed here."
    if not trade_offs.batches:
        every = "every seed of every task" if len(trade_offs.tasks) > 1 else "every seed"
        what = f"Latency was not measured of any method in {every}" if machines else "No latency was measured"
        return f"{what}, so that nothing is said of speed here."
    slow = [label for label in trade_offs.methods if not any(point.speedups for point in trade_offs.points[label])]
    if slow:
        was = "was" if len(slow) == 1 else "were"
        return (
            f"{count(len(slow), 'method')} {was} not timed, nor others with models of the same shapes, so budgets of "
            f"time leave out {', '.join(slow)}."
        )
    return ""
