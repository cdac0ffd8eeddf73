"""From records to numbers: one row a cell, from the record alone."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

import numpy as np
import pandas as pd

from bench.analysis.above_chance import above_chance
from bench.analysis.quality_scale import ACCURACY, measure
from bench.records.protocol import count_at
from bench.records.schema import FinishedRecord, Passes, Result, Samples

SPEED_LEVEL = 0.5  # share of units removed at which size and speed are compared
GENERATION_LEVEL = 7 / 32  # the same for the speed of generation, which the AMP paper gives there


def curve(record: FinishedRecord) -> tuple[np.ndarray, np.ndarray]:
    """Shares of units removed, (levels,), and quality there averaged over draws, (levels,)."""
    result = record.result
    return np.array(result.removed) / result.units, np.mean(result.quality, axis=0)


def removes(record: FinishedRecord) -> str:
    """What a method removes: heads, neurons, or heads and neurons."""
    result = record.result
    if not result.neurons:
        return "heads"
    some = result.orders or any(len(kept) < result.units for kept in result.kept or ())
    return "heads and neurons" if some else "neurons"


def parameters_removed(record: FinishedRecord) -> np.ndarray:
    """Share of all parameters removed at each level, (levels,); that of the first draw."""
    left = np.array([size["model"] for size in record.result.parameters])
    return 1 - left / left[0]


def metrics(record: FinishedRecord) -> dict[str, float]:
    """The figures of one cell. NaN where a level was not measured.

    area: mean quality over the share removed (trapezoids), scaled so that chance is 0 and the unpruned model 1; NaN
    too where that model is not ``above_chance``.
    within1, within5: largest share removed such that no level up to it loses more than 1 or 5 points of accuracy; the
    levels are those measured, draws are averaged. NaN too where texts are scored: a point of a byte's probability may
    be most of it.
    """
    result, measured = record.result, record.measured
    share, quality = curve(record)
    removed = _removed(record)
    base, chance = quality[0], result.chance
    loss = base - quality
    middle = _at(SPEED_LEVEL, result)
    return {
        "base": base,
        "chance": chance,
        "at50": _value(quality, _at(0.5, result)),
        "at75": _value(quality, _at(0.75, result)),
        "area": float((np.trapezoid(quality, share) - chance) / (base - chance))
        if above_chance(result)
        else float("nan"),
        "within1": _safe_share(removed, loss, 0.01) if measure(record) == ACCURACY else float("nan"),
        "within5": _safe_share(removed, loss, 0.05) if measure(record) == ACCURACY else float("nan"),
        "mb": _value([size["model"] for size in result.megabytes], middle),
        "mb_base": result.megabytes[0]["model"],
        "speedup1": _speedup(forward_samples(record, 1), removed, result, middle),
        "speedup32": _speedup(forward_samples(record, 32), removed, result, middle),
        "speedup_generate": generation_speedup(record, GENERATION_LEVEL),
        "scoring_seconds": measured.scoring_seconds,
        "forward": result.passes.forward,
        "backward": result.passes.backward,
        "training_seconds": measured.method_training_seconds,
        "parameters50": _value(parameters_removed(record), middle),
    }


def cost_in_passes(record: FinishedRecord) -> Passes:
    """Examples that the method sent through the model: to score or, of a joint method, to train."""
    training = record.result.method_training
    return training.passes if training else record.result.passes


def forward_samples(record: FinishedRecord, batch: int) -> Samples:
    """Seconds of a forward pass of a batch of this size by number of units removed; empty where it was not timed."""
    latency = record.measured.latency
    return latency.samples.get(batch, {}) if latency else {}


def generation_speedup(record: FinishedRecord, level: float) -> float:
    """How much faster the smaller model generates with the share ``level`` of the units removed; NaN if not timed."""
    generation = record.measured.generation
    return _speedup(
        generation.samples if generation else {}, _removed(record), record.result, _at(level, record.result)
    )


def frame(records: Iterable[FinishedRecord]) -> pd.DataFrame:
    """One row for each finished cell: what it is (task, data, model, label, seed, control, what it
    removes, per cent of the task's training) and its ``metrics``."""
    rows = [
        record.cell.model_dump(include={"task", "data", "model", "label", "seed", "control"})
        | {"removes": removes(record), "trained": 100 * (record.cell.trained or 0.0)}
        | metrics(record)
        for record in records
    ]
    return pd.DataFrame(rows)


def _removed(record: FinishedRecord) -> np.ndarray:
    """Shares of units that are gone at each level, (levels,)."""
    result = record.result
    if result.kept and not result.neurons:  # a selector may keep more than its budget, as the control none does
        return 1 - np.array([len(kept) for kept in result.kept]) / result.units
    return curve(record)[0]


def _at(level: float, result: Result) -> int | None:
    """Place, among the levels measured, of the number of units nearest to ``level``; None where it was not measured."""
    wanted = count_at(level, result.units)
    return result.removed.index(wanted) if wanted in result.removed else None


def _value(values, place: int | None) -> float:
    return float("nan") if place is None else float(values[place])


def _safe_share(share: np.ndarray, loss: np.ndarray, points: float) -> float:
    """Largest share before the first level that loses more than ``points`` (with room for rounding)."""
    over = np.flatnonzero(loss > points + 1e-9)
    return float(share[over[0] - 1] if len(over) else share[-1])


def _speedup(samples: Samples, share: np.ndarray, result: Result, place: int | None) -> float:
    """Median time of the unpruned model over that of the smaller one, from the same interleaved repeats."""
    removed = -1 if place is None else round(share[place] * result.units)
    if removed not in samples or 0 not in samples:
        return float("nan")
    return median(samples[0]) / median(samples[removed])
