"""What runs and readers of records share: the protocol number, and how a share becomes a number of units."""

from __future__ import annotations

from collections.abc import Iterable

# Increased when results from before and after a change must not be compared. 4: calibration examples are held out of
# the training of the task's model, and each draw has a seed of its own for each task, data set and model.
PROTOCOL = 4


def count_at(share: float, units: int) -> int:
    """The number of units nearest to ``share`` of ``units``; halves are rounded up."""
    return int(share * units + 0.5)


def nearest_count(share: float, counts: Iterable[int], units: int) -> int:
    """Of ``counts`` of units the nearest to ``share`` of ``units``; of two that are as near, the smaller."""
    wanted = count_at(share, units)
    return min(counts, key=lambda count: (abs(count - wanted), count))
