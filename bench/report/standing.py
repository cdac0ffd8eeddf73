"""Who stands where, as far as the seeds can show: intervals, tiers and ranks of the methods that remove heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.report.board import Board, keeps_all, removes_heads
from bench.stats.across import FEWEST, Estimate, Scores, iqm, seed_bootstrap, task_means
from bench.stats.many import Ranking, ranking
from bench.stats.samples import TaskKey
from bench.stats.tiers import Tiers, tiers

MARGIN = 0.5  # points of normalised area (chance 0, unpruned 100) below which methods are practically equal


@dataclass(frozen=True)
class Standing:
    """Methods by tier and then by mean area, best first; indices of all arrays are places among ``labels``."""

    labels: tuple[str, ...]
    seeds: tuple[tuple[int, ...], ...]  # of each task
    scores: Scores  # for each task normalised areas, (methods, seeds)
    area: Estimate  # mean over tasks, (methods,)
    iqm: Estimate  # interquartile mean over tasks, (methods,)
    tiers: Tiers | None  # None where tasks share no seed
    ranking: Ranking | None  # blocks are the tasks or, of one task, its seeds; None with a single method
    unranked: dict[str, str]  # methods that remove heads, and why they are not among ``labels``

    def tier(self, label: str) -> int | None:
        """1 for the first tier; None where there are no tiers or the method is not ranked."""
        if self.tiers is None or label not in self.labels:
            return None
        place = self.labels.index(label)
        return next(number for number, members in enumerate(self.tiers.members, 1) if place in members)


def standing(board: Board, tasks: Sequence[TaskKey]) -> Standing | None:
    """The standing on ``tasks``, equally weighted, of each method that has all of their seeds; None where none has.

    The seeds of a task are those that most methods have there. Left out, by name: methods that lack one, and methods on
    a task whose unpruned model is no better than chance. Methods that remove neurons, or nothing, take no part.
    """
    seeds = [board.seeds(task) for task in tasks]
    found: dict[str, list[np.ndarray]] = {}
    unranked: dict[str, str] = {}
    areas = board.table.set_index(["task", "data", "model", "label", "seed"])["area"].to_dict()
    for label in board.labels:
        first = board.any_of(label)
        if not removes_heads(first) or keeps_all(first):
            continue
        rows = [
            np.array([areas.get((*task, label, seed), np.nan) for seed in of_task])
            for task, of_task in zip(tasks, seeds, strict=True)
        ]
        if gaps := [board.name(task) for task, row in zip(tasks, rows, strict=True) if not np.isfinite(row).all()]:
            unranked[label] = f"no result in every seed of {', '.join(gaps)}"
        else:
            found[label] = rows
    if not found:
        return None
    order = sorted(found, key=lambda label: -np.mean([row.mean() for row in found[label]]))
    if by_area := _tiers(seeds, _scores(found, order)):
        order = [order[place] for members in by_area.members for place in members]
    scores = _scores(found, order)
    return Standing(
        labels=tuple(order),
        seeds=tuple(seeds),
        scores=scores,
        area=seed_bootstrap(lambda drawn: task_means(drawn).mean(-1), scores),
        iqm=seed_bootstrap(iqm, scores),
        tiers=_tiers(seeds, scores),
        ranking=_ranking(scores),
        unranked=unranked,
    )


def _scores(found: dict[str, list[np.ndarray]], order: Sequence[str]) -> list[np.ndarray]:
    """For each task (methods, seeds)."""
    return [np.stack(rows) for rows in zip(*(found[label] for label in order), strict=True)]


def _tiers(seeds: list[tuple[int, ...]], scores: Scores) -> Tiers | None:
    """Tiers by the mean over tasks in each seed that all tasks share."""
    common = sorted(set.intersection(*map(set, seeds)))
    if not common:
        return None
    rows = [task[:, [own.index(seed) for seed in common]] for own, task in zip(seeds, scores, strict=True)]
    return tiers(100 * np.mean(rows, axis=0).T, MARGIN)


def _ranking(scores: Scores) -> Ranking | None:
    if len(scores[0]) < 2:
        return None
    return ranking(scores[0].T if len(scores) == 1 else task_means(scores).T)


def words(found: Standing) -> list[str]:
    """What may be said of the standing, and what not, in sentences."""
    said = []
    top = int(np.argmax(found.area.value))
    best, fewest = found.labels[top], min(map(len, found.seeds))
    if len(found.labels) == 1:
        return [f"{best} is the only method with all of its results, so there is nothing to rank."]
    if found.area.low is None or found.area.high is None:
        said.append(
            f"{best} has the largest area, {found.area.value[top]:.3f}, in {_count(fewest, 'seed')}; intervals need at "
            f"least {FEWEST} seeds, and what is shown is the standard deviation over seeds."
        )
    else:
        said.append(
            f"{best} has the largest area, {found.area.value[top]:.3f} (95 % interval {found.area.low[top]:.3f} to "
            f"{found.area.high[top]:.3f} over {_count(fewest, 'seed')})."
        )
    if found.tiers is None:
        said.append("The tasks share no seed, so there are no tiers.")
    elif found.tiers.seeds < found.tiers.needed:
        said.append(
            f"{_count(found.tiers.seeds, 'seed')} cannot show any method to be better than another at the 5 % level: "
            f"all stand in one tier ({found.tiers.needed} seeds could)."
        )
    else:
        alike = len(found.tiers.members[0]) - 1
        said.append(
            f"{_count(alike, 'other method')} in its tier cannot be told from it, or "
            f"{'keeps' if alike == 1 else 'keep'} less by at most {MARGIN:g} points."
            if alike
            else f"Each other method was shown to keep less, by more than {MARGIN:g} points."
        )
    return said


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number != 1 else "")
