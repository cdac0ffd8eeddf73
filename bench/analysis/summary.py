"""Means and standard deviations over seeds. Random draws are averaged within a seed before they come here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


TASK = ["task", "data", "model"]  # columns of a metrics table


def mean_and_spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (n - 1 in the denominator) over seeds, (seeds, ...) -> (...) each.

    The standard deviation is NaN with one seed.
    """
    spread = values.std(0, ddof=1) if len(values) > 1 else np.full(values.shape[1:], np.nan)
    return values.mean(0), spread


def over_seeds(table: pd.DataFrame, by: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same for each group of rows of ``table``, whose rows are seeds: means and spreads, indexed by ``by``.

    A mean is NaN if one seed lacks the value: a mean over other seeds than the neighbour's would mislead.
    """
    groups = table.groupby(by)
    return groups.mean(skipna=False), groups.std()


def over_tasks(table: pd.DataFrame, by: list[str], columns: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means and spreads of ``columns`` of a metrics table over its tasks, equally weighted, indexed by ``by``.

    What lacks a task is not in it. The mean of a task is that over its seeds. Where all tasks have the same seeds, the
    spread is the standard deviation over seeds of the mean over tasks within a seed; else, as there is no such mean, it
    is the mean over tasks of the standard deviation over the seeds of each.
    """
    tasks = table.groupby(TASK).ngroups
    sizes = table.groupby([*by, "seed"])["seed"].transform("size")
    even = (sizes == tasks).groupby([table[name] for name in by]).transform("all")
    found = over_seeds(table[even].groupby([*by, "seed"])[columns].mean(skipna=False), by)
    if even.all():
        return found
    of_task = table[~even].groupby([*by, *TASK])[columns]
    whole = of_task.size().groupby(by).size() == tasks
    rest = [each.groupby(by).mean(skipna=False)[whole] for each in (of_task.mean(skipna=False), of_task.std())]
    means, spreads = (one.combine_first(other)[columns] for one, other in zip(found, rest, strict=True))
    return means, spreads
