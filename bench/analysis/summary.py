"""Means and standard deviations over seeds. Random draws are averaged within a seed before they come here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


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
