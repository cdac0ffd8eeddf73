"""How a cell was measured: what has to be the same where cells are compared."""

from __future__ import annotations

from typing import Any

from bench.records.schema import FinishedRecord, Record

FLAGS = ("text", "label", "finetune", "limit", "harness_tasks", "dtype")  # of a task, those that change what it asks


def flags(record: Record) -> dict[str, Any]:
    """Those flags of its task, None where one was not given."""
    return {name: record.cell.asked.get(name) or None for name in FLAGS}


def in_words(record: FinishedRecord) -> str:
    """All settings of a finished cell but its share of training, which scorers lack."""
    cell, result = record.cell, record.result
    told = [
        f"{', '.join(map(str, result.removed))} of {result.units} units removed",
        f"{cell.calibration} calibration texts",
        f"chance {result.chance:.6g}",
        *(f"{name.replace('_', ' ')} {_plain(value)}" for name, value in flags(record).items() if value),
    ]
    if len(parts := result.parts) > 1:
        told.append(f"parts {', '.join(f'{name} {size}' for name, size in parts.items())}")
    return ", ".join(told)


def _plain(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
