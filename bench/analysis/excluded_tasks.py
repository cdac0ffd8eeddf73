"""Tasks that means over tasks leave out: those whose unpruned model is no better than chance, and so has no area."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.analysis.quality import CHANCE_ERRORS
from bench.analysis.summary import TASK
from bench.records.schema import TaskKey

if TYPE_CHECKING:
    import pandas as pd


def tasks_at_chance(table: pd.DataFrame) -> dict[TaskKey, str]:
    """The tasks of a metrics table in which the unpruned model of some seed is not above chance.

    With the quality it had, ``34.0 %, chance 33.3 %``, and in which seeds if it is above chance in others.
    """
    found = {}
    for names, part in table.groupby(TASK):
        low = part[part["area"].isna()]
        if len(low):
            seeds = sorted(set(low["seed"]))
            where = "" if len(seeds) == part["seed"].nunique() else f" in seed {', '.join(map(str, seeds))}"
            found[TaskKey(*map(str, names))] = (
                f"{100 * low['base'].mean():.1f} %{where}, chance {100 * low['chance'].mean():.1f} %"
            )
    return found


def rows_to_average(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a metrics table on tasks that are not left out; all rows, none of which has an area, if all are."""
    excluded = tasks_at_chance(table)
    names = zip(table["task"], table["data"], table["model"], strict=True)
    rows = table[[each not in excluded for each in names]]
    return rows if len(rows) else table


def exclusion_note(excluded: dict[str, str], some_remain: bool) -> str:
    """A sentence that names the ``excluded`` tasks with the quality of their unpruned models; empty if none is.

    some_remain: whether other tasks are left to average.
    """
    if not excluded:
        return ""
    what = "Left out of the mean" if some_remain else "No area is shown"
    tasks = "; ".join(f"{name} ({quality})" for name, quality in excluded.items())
    return f"{what}, as the unpruned model is not better than chance by {CHANCE_ERRORS} standard errors: {tasks}."
