"""How the line of each method looks, the same in every figure of a report, and which methods stand out in a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from bench.analysis.comparing.controls import random_removal
from bench.analysis.excluded_tasks import rows_to_average
from bench.analysis.kinds import RECOVERED, SCORE, TRAINED, kind
from bench.analysis.summary import TASK
from bench.records.schema import TaskKey
from bench.report.board import Board, keeps_all, removes_heads
from bench.report.figures.picture import FAINT, MUTED, SERIES

MARKERS = ("o", "s", "^", "D", "v", "P")  # of the first method of each colour
MORE = ("X", "p", "<", ">", "h", "*")
MOST = {SCORE: 4, RECOVERED: 1, TRAINED: 2}  # methods of a kind that stand out; all others are thin and grey
FIRST = {SCORE: 0, RECOVERED: 2, TRAINED: 1}  # colour and marker of a kind, by their place
DASHES = {SCORE: "-", RECOVERED: "-.", TRAINED: "--"}


@dataclass(frozen=True)
class Look:
    """How a method is drawn in every figure: markers and dashes tell methods apart as colours do."""

    colour: str
    marker: str = ""
    dashes: str = "-"
    hollow: bool = False
    width: float = 1.7


GREY = Look(FAINT, width=0.8)
Looks = Mapping[str, Look]


def control(board: Board) -> str:
    """The control that removes heads at random, which every method should beat; empty where there is none."""
    return random_removal(board.some)


def standing_out(board: Board, task: TaskKey | None = None, drawn: Collection[str] | None = None) -> list[str]:
    """Methods that stand out in a figure: the best of each kind, by mean area or area on ``task``, and random removal.

    Of the other controls it is only one that is above all methods of its kind, in the place of the last of these.
    Methods that lack a task come after those that have all, by the mean of the tasks that they have. Of those that
    remove neurons too, which have no areas to compare with those of heads, it is the best one, last of all methods;
    where no method removes heads alone, they are ranked as these are. Of few, all stand out, controls too.

    drawn: those that the figure has, where it lacks some, as latency was not measured of all: then the best of these.
    """
    ranked = _by_area(board, task, drawn)
    random = control(board)
    few = [label for label in ranked if label != random]
    heads = [label for label in few if removes_heads(board.any_of(label))] or few
    others = [label for label in few if label not in heads]
    of_kind = {own: [label for label in heads if kind(board.any_of(label).cell) == own] for own in MOST}
    if len(few) > len(SERIES):
        others = [label for label in others if not board.any_of(label).cell.control][:1]
        left = len(SERIES) - len(others)
        for own in (RECOVERED, TRAINED, SCORE):
            of_kind[own] = _best(board, of_kind[own], min(MOST[own], left))
            left -= len(of_kind[own])
    return [label for labels in of_kind.values() for label in labels] + others + [random] * bool(random)


def highlighted(board: Board, looks: Looks, task: TaskKey | None = None, drawn: Collection[str] | None = None) -> Looks:
    """The looks of those methods that stand out in a figure (``standing_out``)."""
    return {label: looks[label] for label in standing_out(board, task, drawn)}


def looks(board: Board) -> dict[str, Look]:
    """How each method looks: no two have both colour and marker in common (of up to 72 methods).

    Those that stand out on average have a colour each, the first of a kind that of the kind. Those that stand out on a
    task alone have a colour that is free there, as far as there is one.
    """
    found: dict[str, Look] = {}
    random = control(board)
    others = [label for label in board.labels if not keeps_all(board.any_of(label))]
    of_panels = [standing_out(board, task) for task in (None, *board.tasks)]
    for labels in [*of_panels, others]:
        kinds = {label: kind(board.any_of(label).cell) for label in labels if label != random}
        taken = [SERIES.index(found[label].colour) for label in kinds if label in found]
        new = [label for label in kinds if label not in found]
        firsts = {kinds[label]: label for label in reversed(kinds)}.values() if labels is of_panels[0] else ()
        for label in sorted(new, key=lambda label: label not in firsts):
            uses = Counter(look.colour for look in found.values())
            unlike = [number for number, colour in enumerate(SERIES) if uses[colour] < len(MARKERS + MORE)]
            free = [number for number in unlike if number not in taken] or unlike or range(len(SERIES))
            least = min(free, key=lambda each: uses[SERIES[each]])
            number = FIRST[kinds[label]] if label in firsts else least
            taken.append(number)
            found[label] = Look(SERIES[number], _marker(number, found), DASHES[kinds[label]], kinds[label] == TRAINED)
    return found | ({random: Look(MUTED, "x", ":")} if random else {})


def _marker(number: int, looks: Looks) -> str:
    """A marker that no method of this colour has yet; the first has one that no other colour begins with."""
    order = [*MARKERS[number:], *MARKERS[:number]]
    order[1:1] = [*MORE[number:], *MORE[:number]]
    used = {look.marker for look in looks.values() if look.colour == SERIES[number]}
    return next((marker for marker in order if marker not in used), order[0])


def _by_area(board: Board, task: TaskKey | None = None, drawn: Collection[str] | None = None) -> list[str]:
    """Methods that remove something, from the best; those that lack a task come last."""
    by_task = rows_to_average(board.table).pivot_table(index="label", columns=TASK, values="area")
    if task is not None and tuple(task) in by_task.columns:  # a task at chance is not among them
        by_task = by_task[[tuple(task)]]
    areas = by_task.reindex([label for label in board.labels if drawn is None or label in drawn])
    ranking = pd.DataFrame({"whole": areas.notna().all(axis=1), "mean": areas.mean(axis=1)})
    by_area = ranking.sort_values(["whole", "mean"], ascending=False, kind="stable").index
    return [str(label) for label in by_area if not keeps_all(board.any_of(label))]


def _best(board: Board, ranked: Sequence[str], most: int) -> list[str]:
    """The first so many of a kind that are no controls, one at least; one that is above them stands for the last."""
    methods = [label for label in ranked if not board.any_of(label).cell.control]
    return methods[:most] if ranked[:1] == methods[:1] else [*methods[: max(1, most - 1)], ranked[0]]
