"""How methods that remove heads rank, as far as the seeds can show: intervals, tiers and mean ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bench.analysis.comparing.comparable import unlike_most
from bench.analysis.kinds import KINDS, kind
from bench.analysis.naming import by_reason, count, number_of_seeds, seeds_in_words
from bench.analysis.stats.across import FEWEST, Estimate, Scores, iqm, mean_of_tasks, seed_bootstrap, task_means
from bench.analysis.stats.many import Ranking, ranking
from bench.analysis.stats.tiers import Tiers, tiers
from bench.analysis.summary import mean_and_spread
from bench.records.schema import TaskKey
from bench.report.board import Board, removes_heads
from bench.report.left_out import tasks_left_out

MARGIN = 0.5  # points of normalised area (chance 0, unpruned 100) below which methods are practically equal
PRACTICALLY_EQUAL = f"{MARGIN:g} points of area (of 100)"


@dataclass(frozen=True)
class Standing:
    """Methods by kind, tier and mean area, best first, in the order of ``labels``; all arrays have that order."""

    labels: tuple[str, ...]
    kinds: Mapping[str, tuple[str, ...]]  # the labels of each kind
    seeds: Mapping[TaskKey, tuple[int, ...]]  # of each task above chance
    scores: Scores  # for each of these tasks normalised areas, (methods, seeds)
    area: Estimate  # mean over tasks, (methods,)
    iqm: Estimate  # interquartile mean over tasks, (methods,)
    controls: frozenset[str]  # those of the labels that are controls
    tiers: Mapping[str, Tiers]  # by kind; indices are places among its labels
    ranking: Ranking | None  # blocks are the tasks or, of one task, its seeds; None with a single method
    unranked: dict[str, str]  # methods that remove heads, and why they are not among ``labels``
    left_out: str  # a sentence on the tasks without an area; empty where each has one

    @property
    def fewest_seeds(self) -> int:
        """Number of seeds of the task that has fewest."""
        return min(map(len, self.seeds.values()))

    @property
    def spread(self) -> np.ndarray:
        """Standard deviation of areas over seeds, (methods,), of the mean over tasks; NaN with one seed.

        Where tasks have other seeds than each other there is no such mean: then it is the mean of those of each task.
        """
        if len(set(self.seeds.values())) == 1:
            return mean_and_spread(np.mean([scores.T for scores in self.scores], axis=0))[1]
        return np.asarray(np.mean([mean_and_spread(scores.T)[1] for scores in self.scores], axis=0))

    def tier(self, label: str) -> int | None:
        """1 for the first tier of the method's kind; None where it is not ranked."""
        if label not in self.labels:
            return None
        own = self.kind(label)
        place = self.kinds[own].index(label)
        return next(number for number, members in enumerate(self.tiers[own].members, 1) if place in members)

    def kind(self, label: str) -> str:
        """The kind of a ranked method."""
        return next(own for own, labels in self.kinds.items() if label in labels)

    def largest(self, labels: Sequence[str]) -> int:
        """Index of the largest area among ``labels``: not always the first, as a tier may hold less than one below."""
        places = [self.labels.index(label) for label in labels]
        return max(places, key=lambda place: self.area.value[place].round(9))


def standing(board: Board, tasks: Sequence[TaskKey]) -> Standing | None:
    """The standing on ``tasks``, equally weighted, of each method that has all of their seeds; None where none has.

    The seeds of a task are those that most methods have there, of the methods that have all tasks. Tasks whose unpruned
    model is no better than chance, and methods that lack a seed or were measured under other settings than most, are
    left out and named. Methods that remove neurons, or nothing, are not ranked.
    """
    seeds, found, unranked = _complete(board, tasks)
    if not found:
        return None
    best_first = sorted(found, key=lambda label: -np.mean([row.mean() for row in found[label]]))
    kinds = {own: [label for label in best_first if kind(board.any_of(label).cell) == own] for own in KINDS}
    ordered = {own: _in_tiers(found, labels) for own, labels in kinds.items() if labels}
    order = [label for labels, _ in ordered.values() for label in labels]
    scores = _scores(found, order)
    return Standing(
        labels=tuple(order),
        kinds={own: labels for own, (labels, _) in ordered.items()},
        seeds=seeds,
        scores=scores,
        area=seed_bootstrap(mean_of_tasks, scores),
        iqm=seed_bootstrap(iqm, scores),
        controls=frozenset(label for label in order if board.any_of(label).cell.control),
        tiers={own: parted for own, (_, parted) in ordered.items()},
        ranking=_ranking(scores),
        unranked=unranked,
        left_out=tasks_left_out(board, tasks),
    )


def why_none(board: Board, tasks: Sequence[TaskKey]) -> str:
    """Why no method is ranked, in sentences."""
    if not any(removes_heads(board.any_of(label)) for label in board.labels):
        return "No method here removes heads and nothing else, so none is ranked."
    low = tasks_left_out(board, tasks)
    if all(task in board.at_chance for task in tasks):
        return f"{low} So no method is ranked."
    said = ["No method that removes heads has a result in every seed of every task, so none is ranked.", low]
    return " ".join([*filter(None, said), *_not_ranked(_complete(board, tasks)[2])])


def _complete(
    board: Board, tasks: Sequence[TaskKey]
) -> tuple[dict[TaskKey, tuple[int, ...]], dict[str, list[np.ndarray]], dict[str, str]]:
    """For each task above chance its seeds, for methods that have all of them their areas, and what others lack."""
    seeds = board.seeds([task for task in tasks if task in board.averaged])
    found: dict[str, list[np.ndarray]] = {}
    unranked: dict[str, str] = {}
    for label in board.labels if seeds else ():
        if not removes_heads(board.any_of(label)):
            continue
        lacks: dict[str, list[str]] = {}
        for task, of_task in seeds.items():
            if missing := [seed for seed in of_task if (*task, label, seed) not in board.areas]:
                which = f"for {seeds_in_words(missing)} " if board.of(task, label) else ""
                lacks.setdefault(which, []).append(board.name(task))
        if lacks:
            told = (f"{which}on {', '.join(where)}" for which, where in lacks.items())
            unranked[label] = f"no result {', and '.join(told)}"
        else:
            found[label] = [
                np.array([board.areas[*task, label, seed] for seed in of_task]) for task, of_task in seeds.items()
            ]
    for task, of_task in seeds.items():
        ranked = [record for label in found for record in board.of(task, label) if record.cell.seed in of_task]
        unranked |= unlike_most(ranked)
    return seeds, {label: areas for label, areas in found.items() if label not in unranked}, unranked


def _scores(found: dict[str, list[np.ndarray]], order: Sequence[str]) -> list[np.ndarray]:
    """For each task (methods, seeds)."""
    return [np.stack(rows) for rows in zip(*(found[label] for label in order), strict=True)]


def _in_tiers(found: dict[str, list[np.ndarray]], labels: Sequence[str]) -> tuple[tuple[str, ...], Tiers]:
    """``labels`` in the order of their tiers, and these with places in that order."""
    parted = tiers([100 * task for task in _scores(found, labels)], MARGIN)
    order = [place for members in parted.members for place in members]
    ends = np.cumsum([0, *map(len, parted.members)]).tolist()
    members = tuple(tuple(range(start, end)) for start, end in pairwise(ends))
    return tuple(labels[place] for place in order), replace(parted, members=members, p=parted.p[np.ix_(order, order)])


def _ranking(scores: Scores) -> Ranking | None:
    if len(scores[0]) < 2:
        return None
    return ranking(scores[0].T if len(scores) == 1 else task_means(scores).T)


def words(standing: Standing) -> list[str]:
    """What the standing shows, and what it does not, in sentences."""
    said = _best(standing) + _by_tier(standing) if len(standing.labels) > 1 else _alone(standing)
    return [*said, *([standing.left_out] if standing.left_out else []), *_not_ranked(standing.unranked)]


def _alone(standing: Standing) -> list[str]:
    return [f"Only {standing.labels[0]} is ranked, so there is nothing to compare it with."]


def _best(standing: Standing) -> list[str]:
    place, area = standing.largest(standing.labels), standing.area
    best = standing.labels[place] + (", a control," if standing.labels[place] in standing.controls else "")
    seeds = number_of_seeds(standing.seeds.values())
    if area.low is None or area.high is None:
        instead = ", so the standard deviation over seeds is shown instead" if standing.fewest_seeds > 1 else ""
        return [
            f"{best} has the largest area, {area.value[place]:.3f}, in {seeds}; intervals need at least {FEWEST} "
            f"seeds{instead}."
        ]
    interval = f"95 % interval {area.low[place]:.3f} to {area.high[place]:.3f}"
    return [f"{best} has the largest area, {area.value[place]:.3f} ({interval} over {seeds})."]


def _by_tier(standing: Standing) -> list[str]:
    """What the first tier of the kind of the largest area shows."""
    best = standing.labels[standing.largest(standing.labels)]
    own = standing.kind(best)
    others = {*standing.kinds[own]} - {best}
    tiers, of_kind = standing.tiers[own], " of its kind" if len(standing.kinds) > 1 else ""
    number, needed = sum(tiers.seeds), tiers.needed
    if number < needed:
        which = count(number, "seed") + (" of all tasks together" if len(standing.seeds) > 1 else "")
        return [
            f"{which} cannot show any method to be better than another at the 5 % level, so all ranked "
            f"methods{' of a kind' if of_kind else ''} are in one tier ({needed} are needed)."
        ]
    alike = len(tiers.members[0]) - 1
    if not others:
        return ["No other ranked method is of its kind."]
    if not alike:
        which = f"Each other ranked method{of_kind} was"
        if others <= standing.controls:
            one = f"The only other ranked method{of_kind} is a control, and was"
            which = one if len(others) == 1 else f"All other ranked methods{of_kind} are controls, and were"
        return [f"{which} shown to keep less, by more than {PRACTICALLY_EQUAL}."]
    return [
        f"{count(alike, 'other method')} in its tier {'was' if alike == 1 else 'were'} not shown to keep less by more "
        f"than {PRACTICALLY_EQUAL}, with all pairs{of_kind} tested together."
    ]


def _not_ranked(unranked: dict[str, str]) -> list[str]:
    return [f"Not ranked: {by_reason(unranked)}."] if unranked else []
