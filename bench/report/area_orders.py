"""Whether methods rank alike by the area over all shares removed and by that over the shares up to a half."""

from __future__ import annotations

import numpy as np

from bench.analysis.excluded_tasks import rows_to_average
from bench.analysis.naming import fixed
from bench.analysis.stats.orders import rank_correlation
from bench.analysis.summary import over_tasks
from bench.report.board import Board, removes_heads

FEWEST = 3  # methods of which an order says something


def area_orders(board: Board) -> str:
    """A sentence with Kendall's tau between the two orders of methods that remove heads and have all tasks.

    Empty with fewer than three such methods, and where there are no areas.
    """
    table = rows_to_average(board.table)
    means, _ = over_tasks(table, ["label"], ["area", "area50"])
    labels = [label for label in means.index if removes_heads(board.any_of(label))]
    means = means.loc[labels]
    if len(labels) < FEWEST or means.isna().any(axis=None):
        return ""
    tau = rank_correlation(means["area"].to_numpy(), means["area50"].to_numpy())
    return (
        f"Kendall's tau between the orders of the {len(labels)} methods that remove heads by area and by area to 50 %: "
        f"{'undefined, as all tie in one of them' if np.isnan(tau) else fixed(tau, 2)}."
    )
