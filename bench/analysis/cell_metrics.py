"""The metrics of one cell, and a table of them: one row per cell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from bench.analysis.costs import draws, forward_speedup, generation_speedup, level_index, units_removed
from bench.analysis.curves import area_to, curve, parameters_removed, removes, share_emptied
from bench.analysis.kinds import kind, share_trained
from bench.analysis.nearest_levels import with_nearest
from bench.analysis.quality import BYTE_PROBABILITY, is_above_chance, quality_name
from bench.records.schema import FinishedRecord

if TYPE_CHECKING:  # slow to import, and comparing two methods does without
    import pandas as pd

SIZE_LEVEL = 0.5  # share of units removed at which size and speed are compared
GENERATION_LEVEL = 7 / 32  # at which the AMP paper gives the speed of generation
NAN = float("nan")


def metrics(record: FinishedRecord) -> dict[str, float]:
    """The metrics of one cell. NaN where a level was not measured or a model not timed.

    area: mean quality over the share removed (trapezoids), scaled so that chance is 0 and the unpruned model 1. NaN if
    that model is not above chance.
    area50: the same over the shares up to a half, where models are still of use.
    emptied50: share of draws in which some attention module has no unit left with half of the units removed.
    within1, within5: largest share removed such that no level up to it loses more than 1 or 5 points of quality, among
    the levels measured. NaN if texts are scored, where a point may be most of a byte's probability.
    scoring_seconds, forward, backward, training_seconds: on the mean of the draws, for all levels together.
    """
    result, measured, number = record.result, record.measured, draws(record)
    shares, quality = curve(record)
    base, chance = quality[0], result.chance
    in_points = quality_name(record) != BYTE_PROBABILITY

    def scaled(largest: float) -> float:
        if not is_above_chance(result):
            return NAN
        return float((area_to(largest, shares, quality) - chance) / (base - chance))

    return {
        "base": base,
        "chance": chance,
        "at50": _at(record, 0.5, quality),
        "at75": _at(record, 0.75, quality),
        "area": scaled(float(shares[-1])),
        "area50": scaled(0.5),
        "within1": _safe_share(units_removed(record), base - quality, 0.01) if in_points else NAN,
        "within5": _safe_share(units_removed(record), base - quality, 0.05) if in_points else NAN,
        "mb": _at(record, SIZE_LEVEL, [size["model"] for size in result.megabytes]),
        "mb_base": result.megabytes[0]["model"],
        "speedup1": forward_speedup(record, 1, SIZE_LEVEL),
        "speedup8": forward_speedup(record, 8, SIZE_LEVEL),
        "speedup32": forward_speedup(record, 32, SIZE_LEVEL),
        "speedup_generate": generation_speedup(record, GENERATION_LEVEL),
        "speedup_generate50": generation_speedup(record, SIZE_LEVEL),
        "scoring_seconds": measured.scoring_seconds / number,
        "forward": result.passes.forward / number,
        "backward": result.passes.backward / number,
        "training_seconds": measured.method_training_seconds / number,
        "emptied50": share_emptied(record, 0.5),
        "parameters50": _at(record, SIZE_LEVEL, parameters_removed(record)),
    }


def metrics_table(records: Iterable[FinishedRecord]) -> pd.DataFrame:
    """One row per record, with its ``metrics``.

    Before these it has the record's task, data, model, label and seed, whether it is a control, its kind, what it
    removes, and the percentage of the task's own training that its method takes. Where no record has a level of at50
    or at75, their nearest levels are there in their place (``with_nearest``).
    """
    import pandas as pd

    records = list(records)
    rows = [
        {name: getattr(record.cell, name) for name in ("task", "data", "model", "label", "seed", "control")}
        | {"kind": kind(record.cell), "removes": removes(record), "trained": 100 * (share_trained(record) or 0.0)}
        | metrics(record)
        for record in records
    ]
    return with_nearest(pd.DataFrame(rows), records) if rows else pd.DataFrame()


def _at(record: FinishedRecord, level: float, values) -> float:
    """The entry of ``values``, (levels,), at ``level``, which is neither 0 nor 1.

    NaN if it was not measured, or so few units that it means none or all of them.
    """
    index = level_index(record, level)
    if index is None or record.result.removed[index] in (0, record.result.units):
        return NAN
    return float(values[index])


def _safe_share(shares: np.ndarray, loss: np.ndarray, limit: float) -> float:
    """Largest share before the first level whose loss exceeds ``limit`` (but for rounding)."""
    over = np.flatnonzero(loss > limit + 1e-9)
    return float(shares[over[0] - 1] if len(over) else shares[-1])
