"""What a method costs and what it saves: passes through the model, and speed-ups from raw latency samples."""

from __future__ import annotations

from statistics import median

import numpy as np

from bench.records.fields import Samples
from bench.records.protocol import count_at
from bench.records.schema import FinishedRecord


def cost_in_passes(record: FinishedRecord) -> float:
    """Examples that the method sent through the model, forward and backward, on the mean of its draws.

    To score and to recover weights at all levels or, for a joint method, to train.
    """
    training = record.result.method_training
    passes = training.passes if training else record.result.passes
    return passes.total / draws(record)


def draws(record: FinishedRecord) -> int:
    """Removal orders of the cell, of which its costs are the sum: more than one where a method draws them at random."""
    return len(record.result.quality)


def forward_samples(record: FinishedRecord, batch: int) -> Samples:
    """Seconds of a forward pass at this batch size, by number of units removed; empty if it was not timed."""
    latency = record.measured.latency
    return latency.samples.get(batch, {}) if latency else {}


def forward_speedup(record: FinishedRecord, batch: int, level: float) -> float:
    """Speed-up of a forward pass with the share ``level`` of the units removed; NaN if it was not timed there."""
    return _speedup(record, forward_samples(record, batch), level)


def forward_speedups(record: FinishedRecord, batch: int) -> np.ndarray:
    """``forward_speedup`` at each level of the record, (levels,)."""
    samples = forward_samples(record, batch)
    return np.array([_speedup_at(record, samples, index) for index in range(len(record.result.removed))])


def generation_speedup(record: FinishedRecord, level: float) -> float:
    """Speed-up of generating text with the share ``level`` of the units removed; NaN if it was not timed there."""
    generation = record.measured.generation
    return _speedup(record, generation.samples if generation else {}, level)


def level_index(record: FinishedRecord, level: float) -> int | None:
    """Index of the level at which the nearest number of units to ``level`` is removed; None if it was not measured."""
    wanted = count_at(level, record.result.units)
    return record.result.removed.index(wanted) if wanted in record.result.removed else None


def units_removed(record: FinishedRecord) -> np.ndarray:
    """Share of units that are really gone at each level, (levels,).

    A selector may keep more than its budget allows, as the control ``none`` does.
    """
    result = record.result
    return np.array([_removed(record, index) for index in range(len(result.removed))]) / result.units


def _removed(record: FinishedRecord, index: int) -> int:
    """Number of units that are really gone at a level."""
    result = record.result
    return result.units - len(result.kept[index]) if result.kept and not result.neurons else result.removed[index]


def _speedup(record: FinishedRecord, samples: Samples, level: float) -> float:
    index = level_index(record, level)
    return float("nan") if index is None else _speedup_at(record, samples, index)


def _speedup_at(record: FinishedRecord, samples: Samples, index: int) -> float:
    """Median seconds of the unpruned model over those of the smaller one, of the same cell; NaN if not timed."""
    removed = _removed(record, index)
    if removed not in samples or 0 not in samples:
        return float("nan")
    return median(samples[0]) / median(samples[removed])
