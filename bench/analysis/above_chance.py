"""Whether an unpruned model is better than chance: where it is not, quality scaled by the two says nothing."""

from __future__ import annotations

from math import sqrt

import pandas as pd

from bench.records.schema import Result, TaskKey
from bench.report.tables.markdown import literal

ERRORS = 2  # standard errors of a share of right answers


def above_chance(result: Result) -> bool:
    """Whether the unpruned model of a record's ``result`` is better than chance by more than ``ERRORS`` such errors.

    The error is the binomial one of guessing, of the mean over sub-tasks where there are several; it is 0 where texts
    are scored and nothing is right or wrong.
    """
    chance, sizes = result.chance, result.parts.values()
    error = sqrt(chance * (1 - chance) * sum(1 / size for size in sizes)) / len(sizes) if sizes else 0.0
    return result.quality[0][0] - chance > ERRORS * error


def at_chance(table: pd.DataFrame) -> dict[TaskKey, str]:
    """The tasks of a frame in which the unpruned model of some seed is not above chance, and so has no area.

    To each what it had: ``34.0 %, chance 33.3 %``, with the seeds where it is above chance in others.
    """
    found = {}
    for names, part in table.groupby(["task", "data", "model"]):
        low = part[part["area"].isna()]
        if len(low):
            seeds = sorted(set(low["seed"]))
            where = "" if len(seeds) == part["seed"].nunique() else f" in seed {', '.join(map(str, seeds))}"
            found[TaskKey(*map(str, names))] = (
                f"{100 * low['base'].mean():.1f} %{where}, chance {100 * low['chance'].mean():.1f} %"
            )
    return found


def averaged(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows of a frame on the tasks that means are taken over, and a sentence on the others, empty without such.

    All rows where no task is left: they have no area.
    """
    low = at_chance(table)
    names = zip(table["task"], table["data"], table["model"], strict=True)
    kept = table[[each not in low for each in names]]
    told = left_out({literal(", ".join(each)): had for each, had in low.items()}, bool(len(kept)))
    return (kept if len(kept) else table), told


def left_out(low: dict[str, str], others: bool) -> str:
    """A sentence that names the tasks ``low`` with what their unpruned models had; ``others``: whether any is left."""
    if not low:
        return ""
    what = "Left out of the mean" if others else "No area is shown"
    tasks = "; ".join(f"{name} ({had})" for name, had in low.items())
    return f"{what}, as the unpruned model is not better than chance by {ERRORS} standard errors: {tasks}."
