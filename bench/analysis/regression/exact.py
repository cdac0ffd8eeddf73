"""What no noise can change: the result of a cell, compared part by part with that of the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.analysis.regression.cells import Twin
from bench.records.arrays import read_arrays
from bench.records.result import Result
from bench.records.schema import FailedRecord, FinishedRecord, Record

# Parts of a result that are the same on every machine and under every version.
EVERYWHERE = ("units", "shape", "neurons", "removed")
SIZES = ("parameters", "megabytes")  # the same wherever the same units are removed
FAILS_NOW, FAILED_BEFORE = "fails now", "failed before"
# Named first, as they explain other changes.
CAUSES = ("training", "units", "shape", "passes", "orders", "kept", "method_training")
NAMES = {
    "shape": "heads by layer",
    "removed": "levels",
    "orders": "removal order",
    "kept": "masks",
    "training": "the task's trained model",
    "method_training": "training",
    "megabytes": "size",
    "gap": "logits' difference between gated and smaller model",
}


@dataclass(frozen=True)
class Change:
    """One part of a cell's result that differs from the baseline."""

    part: str  # in words; the same for all cells in which it changed
    detail: str  # from what to what, in this cell


def changes(twin: Twin) -> list[Change]:
    """Every part of the result that differs, causes first; if the environment changed, only parts that must agree.

    For a failure: that the cell fails now, or failed before. Raises InputError if the arrays are corrupt.
    """
    before, after = twin.before.record, twin.after.record
    if not isinstance(before, FinishedRecord) or not isinstance(after, FinishedRecord):
        return _failures(before, after)
    old, new = before.result.model_dump(), after.result.model_dump()
    parts: Sequence[str] = sorted(sorted(old), key=_rank)
    if twin.environment_changes:
        parts = [*EVERYWHERE, *SIZES] if same_choices(before.result, after.result) else EVERYWHERE
    found = [
        Change(NAMES.get(part, part), _detail(part, old[part], new[part])) for part in parts if old[part] != new[part]
    ]
    if not twin.environment_changes and before.outcomes != after.outcomes:
        found += _arrays(twin)
    return found


def same_choices(old: Result, new: Result) -> bool:
    """Whether two results of one cell removed the same units."""
    return (old.orders, old.kept) == (new.orders, new.kept)


def _rank(part: str) -> int:
    return CAUSES.index(part) if part in CAUSES else len(CAUSES)


def _failures(before: Record, after: Record) -> list[Change]:
    if isinstance(after, FailedRecord) and isinstance(before, FinishedRecord):
        return [Change(FAILS_NOW, after.reason)]
    if isinstance(before, FailedRecord) and isinstance(after, FinishedRecord):
        return [Change(FAILED_BEFORE, before.reason)]
    return []


def _detail(part: str, old: Any, new: Any) -> str:
    if part == "passes" and old and new:
        return ", ".join(f"{old[name]} -> {new[name]} {name}" for name in old if old[name] != new[name])
    if part == "orders" and old and new:
        return _orders(old, new)
    if part == "kept" and old and new:
        changed = sum(set(a) != set(b) for a, b in zip(old, new, strict=False))
        return f"{changed} of {len(old)} levels keep other units"
    if part == "quality" and np.shape(old) == np.shape(new):
        return f"by {100 * np.abs(np.subtract(np.mean(new, axis=0), np.mean(old, axis=0))).max():.1f} points at most"
    if part in ("parameters", "megabytes"):
        return f"{sum(a != b for a, b in zip(old, new, strict=False))} of {len(old)} levels"
    if isinstance(old, dict) and isinstance(new, dict):
        return f"other {', '.join(str(name) for name in {**old, **new} if old.get(name) != new.get(name))}"
    return "other values" if isinstance(new, list) else f"{old} -> {new}"


def _orders(old: Sequence[Sequence[int]], new: Sequence[Sequence[int]]) -> str:
    draws = [(a, b) for a, b in zip(old, new, strict=False) if list(a) != list(b)]
    if not draws:
        return f"{len(old)} -> {len(new)} draws"
    a, b = draws[0]
    places = [place for place, (one, other) in enumerate(zip(a, b, strict=False)) if one != other]
    if not places:
        return f"{len(a)} -> {len(b)} units"
    return f"{len(places)} of {len(a)} places, from place {places[0] + 1} on: unit {a[places[0]]} -> {b[places[0]]}"


def _arrays(twin: Twin) -> list[Change]:
    """What differs in the arrays that both have, except for scores: rounding may change them and no order."""
    before, after = (read_arrays(run.path) for run in (twin.before, twin.after))
    old, new = before["outcomes"], after["outcomes"]
    if old.shape != new.shape:
        return [Change("test outcomes", f"{old.shape} -> {new.shape}")]
    if changed := int((old != new).sum()):
        return [Change("test outcomes", f"{changed} of {old.size} differ")]
    shared = sorted(name for name in before.keys() & after.keys() if not name.startswith("scores."))
    differ = [name for name in shared if not np.array_equal(before[name], after[name])]
    return [Change("arrays", f"other {', '.join(differ)}")] if differ else []
