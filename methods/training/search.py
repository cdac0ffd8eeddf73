"""Search for the weight of a penalty that leaves a given number of gates open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

NARROWEST = 1.02  # neighbouring weights closer than this factor are not divided further
EDGE = 0.1  # least share of the logarithm of a bracket's factor between a new weight and both its ends


def search(
    opened: Callable[[float], int],
    weights: Sequence[float],
    budgets: Sequence[int],
    *,
    tolerance: float,
    most: int,
) -> dict[float, int]:
    """The number of gates open at each weight tried, in the order in which they were tried.

    Tries ``weights`` first, then weights between neighbours that leave more and fewer gates open than the budget that
    is off by most, for as long as one is off by more than ``tolerance`` and fewer than ``most`` weights have been
    tried. The number need not fall with the weight.

    opened: trains with a weight and returns the number of gates left open.
    """
    found: dict[float, int] = {}
    for weight in [*dict.fromkeys(weights)][:most]:
        found[weight] = opened(weight)
    while len(found) < most:
        off = {keep: min(abs(count - keep) for count in found.values()) for keep in budgets}
        missed = sorted((keep for keep in off if off[keep] > tolerance), key=lambda keep: -off[keep])
        between = [place for keep in missed if (place := _between(found, keep)) is not None]
        if not between:
            break
        found[between[0]] = opened(between[0])
    return found


def _between(found: Mapping[float, int], keep: int) -> float | None:
    """A weight in the bracket that comes closest to ``keep``, by interpolation in its logarithm; None without one."""
    tried = sorted(found)
    brackets = [
        (abs(found[low] - keep) + abs(found[high] - keep), low, high)
        for low, high in pairwise(tried)
        if (found[low] - keep) * (found[high] - keep) < 0 and high / low > NARROWEST
    ]
    if not brackets:
        return None
    _, low, high = min(brackets)
    place = (found[low] - keep) / (found[low] - found[high])
    return low * (high / low) ** min(max(place, EDGE), 1 - EDGE)
