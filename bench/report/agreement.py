"""How far methods agree on which heads go first: the removal orders of each two methods on a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from bench.analysis.stats.orders import pair_signs, removed_first
from bench.records.protocol import count_at
from bench.records.schema import FinishedRecord, TaskKey
from bench.report.board import Board
from bench.report.links import task_slug
from bench.report.tables.table import Cell, Heading, Table, number_cell

LEVEL = 0.5  # share of heads removed at which orders are compared as sets


@dataclass(frozen=True)
class OrderAgreement:
    """Methods that have removal orders, similar ones side by side, and how far each two of them agree.

    tau, shared: (methods, methods), symmetric, means over the seeds that both have and over their draws; NaN on the
    diagonal, and where two methods share no seed. ``shared`` is the share of the ``first`` heads removed that two
    orders have in common; unrelated orders share ``expected``. unordered: methods without orders, sorted.
    """

    labels: tuple[str, ...]
    tau: np.ndarray
    shared: np.ndarray
    first: int
    units: int
    unordered: tuple[str, ...]

    @property
    def expected(self) -> float:
        """The share that unrelated orders have in common, on average."""
        return self.first / self.units


def agreement(board: Board, task: TaskKey) -> OrderAgreement | None:
    """Agreement of the methods on a task; None with fewer than two that have orders of the same units."""
    cells = {label: records for label in board.labels if (records := board.of(task, label))}
    orders = {label: own for label, records in cells.items() if (own := _orders(records))}
    if len(orders) < 2 or len({order.shape[1] for own in orders.values() for order in own.values()}) > 1:
        return None
    labels = sorted(orders)
    units = next(iter(orders[labels[0]].values())).shape[1]
    first = max(1, count_at(LEVEL, units))
    by_seed = [orders[label] for label in labels]
    tau = _products(by_seed, pair_signs) / (units * (units - 1) / 2 or np.nan)
    shared = _products(by_seed, lambda of_seed: removed_first(of_seed, first)) / first
    order = order_by_similarity(tau)
    return OrderAgreement(
        labels=tuple(labels[place] for place in order),
        tau=tau[np.ix_(order, order)],
        shared=shared[np.ix_(order, order)],
        first=first,
        units=units,
        unordered=tuple(sorted(cells.keys() - orders.keys())),
    )


def _products(orders: Sequence[Mapping[int, np.ndarray]], vectors: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """For each two methods the mean, over seeds and draws, of the product of their orders' vectors.

    orders: of each method by seed, (draws, units). Tau and the share in common are such products, up to a factor, and
    the mean over draws is the product of means: each order is looked at once, however many methods there are. Returns
    (methods, methods), NaN on the diagonal and where two methods share no seed.
    """
    sums, seeds = np.zeros((len(orders), len(orders))), np.zeros((len(orders), len(orders)))
    for seed in sorted(set().union(*orders)):
        some = [place for place, own in enumerate(orders) if seed in own]
        means = np.array([vectors(orders[place][seed]).mean(0) for place in some])
        sums[np.ix_(some, some)] += means @ means.T
        seeds[np.ix_(some, some)] += 1
    np.fill_diagonal(seeds, 0)
    return np.divide(sums, seeds, out=np.full_like(sums, np.nan), where=seeds > 0)


def pairs(board: Board, task: TaskKey, agreement: OrderAgreement) -> Table:
    """A row for each two methods, those that agree most first."""
    rows = [
        (
            Cell(f"{agreement.labels[i]}, {agreement.labels[j]}", f"{agreement.labels[i]}, {agreement.labels[j]}"),
            number_cell(float(agreement.tau[i, j]), 2),
            number_cell(float(agreement.shared[i, j]), 0, factor=100),
        )
        for i, j in combinations(range(len(agreement.labels)), 2)
    ]
    rows.sort(key=lambda row: (-np.nan_to_num(float(row[1].value), nan=-2), row[0].value))
    headings = (
        Heading("methods", "methods"),
        Heading("Kendall's tau", "tau", "1 is the same order, 0 what unrelated orders give, -1 the reverse"),
        Heading(
            "shared, %",
            "shared",
            f"Of the {agreement.first} heads removed first; unrelated orders share {100 * agreement.expected:.0f} %",
        ),
    )
    caption = (
        f"{board.name(task)}: agreement of two methods' removal orders at the same seed, mean over seeds and draws"
    )
    return Table(f"{task_slug(task)}-agreement", caption, headings, tuple(rows))


def _orders(records: list[FinishedRecord]) -> dict[int, np.ndarray]:
    """Orders, (draws, units), by seed."""
    found = {record.cell.seed: record.result.orders for record in records}
    return {seed: np.array(orders) for seed, orders in found.items() if orders}


def order_by_similarity(tau: np.ndarray) -> np.ndarray:
    """An order of methods, (methods,), that puts similar ones side by side: the leaves of average linkage of 1 - tau.

    tau: (methods, methods), symmetric; NaN counts as unrelated.
    """
    distances = 1 - np.nan_to_num(tau)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False).round(9), "average", optimal_ordering=True)
    return np.asarray(leaves_list(tree))
