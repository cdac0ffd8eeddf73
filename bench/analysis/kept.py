"""Which heads are kept: by head, and how many in each layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from bench.analysis.curves import removes
from bench.records.schema import FinishedRecord


def kept_shares(records: Sequence[FinishedRecord], removed: int) -> np.ndarray | None:
    """Share of seeds and draws that keep each unit with ``removed`` removed, (units,); None if not measured.

    Records of a model with other units than that of the first do not count.
    """
    masks = []
    for record in records:
        result = record.result
        if removed not in result.removed or result.units != records[0].result.units:
            continue
        mask = np.zeros(result.units)
        if result.orders:
            for order in result.orders:
                mask[order[removed:]] += 1 / len(result.orders)
        elif result.kept:
            mask[result.kept[result.removed.index(removed)]] = 1
        masks.append(mask)
    return np.mean(masks, axis=0) if masks else None


def by_layer(units: np.ndarray, shape: Sequence[int]) -> list[np.ndarray]:
    """Values of units, (units,), one array per layer."""
    return np.split(units, np.cumsum(shape)[:-1])


def counts_heads(record: FinishedRecord) -> bool:
    """Whether every level is the number of heads removed.

    Where neurons are removed, a level may be a share of something else: of neurons, or of the parameters of both.
    """
    result = record.result
    return not result.kept or all(
        len(kept) == result.units - removed for kept, removed in zip(result.kept, result.removed, strict=True)
    )


def kept_by_layer(records: Sequence[FinishedRecord]) -> tuple[str, list[str], np.ndarray]:
    """What the levels count, their names, and the mean number of heads kept in each layer at each, (layers, levels).

    The names are numbers of heads kept, or shares removed where a level does not count heads. The levels are those of
    the first record; other records count at the levels that they share with it.
    """
    result = records[0].result
    kept = [kept_shares(records, count) for count in result.removed]
    numbers = [[layer.sum() for layer in by_layer(units, result.shape)] for units in kept if units is not None]
    if all(map(counts_heads, records)):
        what = "heads kept in all"
        names = [str(result.units - count) for count in result.removed]
    else:
        what = f"share of {removes(records[0])} removed"
        names = [f"{100 * count / result.units:.0f} %" for count in result.removed]
    return what, names, np.array(numbers).T


def modules_of(record: FinishedRecord) -> Sequence[int | str]:
    """Names of the attention modules: numbers of layers, or with the kind of attention where there are several."""
    number: Counter[str] = Counter()
    names: list[str] = []
    for each in record.result.attention:
        names.append(f"{each} {number[each]}")
        number[each] += 1
    return names or range(len(record.result.shape))


def mean_heads(number: float) -> str:
    """A mean number of heads, with one decimal where it is not whole."""
    return f"{number:.0f}" if abs(number - round(number)) < 0.05 else f"{number:.1f}"
