"""Whether the fields of a result agree with each other, so that whoever reads a record may rely on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.records.fields import Samples
    from bench.records.result import Result, Trace


def check_result(result: Result) -> None:
    """Raise ValueError where the parts of ``result`` are not of the same units, levels or draws."""
    levels, draws = len(result.removed), len(result.quality)
    _check_levels(result.removed, result.units - len(result.never_empty))
    if result.shape and sum(result.shape) != result.units:
        raise ValueError(f"shape has {sum(result.shape)} units of {result.units}")
    if not set(result.never_empty) <= set(range(len(result.shape))):
        raise ValueError(f"never_empty has a module that is not one of {len(result.shape)}")
    if result.attention and len(result.attention) != len(result.shape):
        raise ValueError(f"attention has {len(result.attention)} modules, shape {len(result.shape)}")
    for name, rows in (("quality", result.quality), ("metrics", result.metrics)):
        if any(len(row) != levels for row in rows):
            raise ValueError(f"{name} has rows that are not {levels} levels long")
        if len(rows) != draws:
            raise ValueError(f"{name} has {len(rows)} draws, quality {draws}")
    if not _same(metrics for row in result.metrics for metrics in row):
        raise ValueError("metrics has other names at some levels")
    for name, values in (("parameters", result.parameters), ("megabytes", result.megabytes)):
        _check_sizes(name, values, levels)
    for order in result.orders or ():
        if len(order) != result.units or set(order) != set(range(result.units)):
            raise ValueError(f"orders has an entry that is not an order of {result.units} units")
    if result.orders is not None and len(result.orders) != draws:
        raise ValueError(f"orders has {len(result.orders)} draws, quality {draws}")
    if result.kept is not None and len(result.kept) != levels:
        raise ValueError(f"kept has {len(result.kept)} entries for {levels} levels")
    for kept in result.kept or ():
        if kept != sorted(set(kept)) or not set(kept) <= set(range(result.units)):
            raise ValueError(f"kept has an entry that is not some of {result.units} units, ascending")


def check_outcomes(result: Result, shape: Sequence[int]) -> None:
    """Raise ValueError where ``result`` does not belong to outcomes of ``shape``, (draws, levels, N)."""
    draws, levels, examples = shape
    if (draws, levels) != (len(result.quality), len(result.removed)):
        raise ValueError(f"{draws} draws and {levels} levels, not {len(result.quality)} and {len(result.removed)}")
    if result.parts and examples != (expected := sum(result.parts.values())):
        raise ValueError(f"{examples} examples, not {expected}")


def check_samples(samples: Samples) -> None:
    """Raise ValueError where a level has no repeat, or one that took no time."""
    if not all(samples.values()):
        raise ValueError("samples has no repeats at some level")
    if any(second <= 0 for seconds in samples.values() for second in seconds):
        raise ValueError("samples has a time that is not above 0")


def check_trace(trace: Trace) -> None:
    """Raise ValueError where steps do not ascend, or a value is not there for each of them."""
    if not trace.steps or trace.steps[0] < 1 or trace.steps != sorted(set(trace.steps)):
        raise ValueError("trace has steps that do not ascend from 1")
    for name in ("loss", "right", "open"):
        values = getattr(trace, name)
        if len(values) != len(trace.steps) and (values or name == "loss"):
            raise ValueError(f"trace has {len(values)} values of {name} for {len(trace.steps)} steps")


def _check_levels(removed: Sequence[int], units: int) -> None:
    if list(removed) != sorted(set(removed)) or len(removed) < 2 or removed[0] != 0 or removed[-1] > units:
        raise ValueError(f"removed is not an ascending list of levels from 0 to at most {units}")


def _check_sizes(name: str, values: Sequence[Mapping[str, Any]], levels: int) -> None:
    if len(values) != levels:
        raise ValueError(f"{name} has {len(values)} entries for {levels} levels")
    if any("model" not in sizes for sizes in values) or values[0]["model"] <= 0:
        raise ValueError(f"{name} has an entry without the size of the model, or 0 for the unpruned one")
    if not _same(sizes.keys() for sizes in values):
        raise ValueError(f"{name} has other modules at some levels")


def _same(values: Iterable[Iterable[str]]) -> bool:
    return len({frozenset(value) for value in values}) < 2
