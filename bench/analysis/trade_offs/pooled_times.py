"""Speed-ups of methods, pooled where their models have one shape, so that luck of timing chooses between none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bench.analysis.costs import forward_speedups
from bench.analysis.curves import parameters_removed, removes
from bench.analysis.trade_offs.points import Own, Speedups, mean_of

ALIKE = 0.01  # share of the parameters by which models of one shape may differ: a recovery may add biases


def pooled_speedups(cells: Mapping[str, Own], batches: Sequence[int]) -> dict[str, Speedups]:
    """Speed-ups of each method: the mean of all that were timed at the level and have models of the same size there.

    That holds for methods that remove heads alone, timed or not: which heads are gone hardly changes the time, so what
    differs between them is noise. With neurons, models of one size have several shapes, and a method has its own times.

    cells: the records of each method, with the same tasks, seeds and levels.
    """
    found = {label: _own_speedups(own, batches) for label, own in cells.items()}
    left = {
        label: 1 - mean_of(own, parameters_removed) for label, own in cells.items() if removes(own[0][0]) == "heads"
    }
    for place in range(len(next(iter(left.values()), ()))):
        for labels in _of_one_size({label: float(levels[place]) for label, levels in left.items()}):
            for batch in batches:
                at = [[each[:, place] for each in found[label][batch]] for label in labels]
                timed = [of_tasks for of_tasks in at if all(np.isfinite(each).all() for each in of_tasks)]
                means = [np.mean(of_task, axis=0) for of_task in zip(*timed, strict=True)]
                for of_tasks in at if timed else ():
                    for own, mean in zip(of_tasks, means, strict=True):
                        own[:] = mean
    return found


def _own_speedups(own: Own, batches: Sequence[int]) -> Speedups:
    return {
        batch: tuple(np.array([forward_speedups(each, batch) for each in task]) for task in own) for batch in batches
    }


def _of_one_size(left: Mapping[str, float]) -> Iterator[list[str]]:
    """Groups of the methods whose shares of parameters left are no more than ``ALIKE`` above the smallest of them."""
    group: list[str] = []
    for label in sorted(left, key=lambda label: (left[label], label)):
        if group and left[label] > left[group[0]] + ALIKE:
            yield group
            group = []
        group.append(label)
    if group:
        yield group
