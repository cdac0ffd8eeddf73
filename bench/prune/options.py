"""What the verb ``prune`` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.prune.defaults import Export
from bench.suites.parse import MethodSpec
from tasks.request import CalibrationSource, TaskSpec


@dataclass(frozen=True)
class PruneOptions:
    """What to prune, with which method, how far, and where to."""

    task: TaskSpec
    method: MethodSpec
    keep: str  # share of the units, such as 0.5 or 50%, a number of units, or auto for the method's own number
    out: Path
    seed: int
    calibration: int
    calibration_from: CalibrationSource
    training: float
    device: str
    uniform: bool = False  # the same number of heads in every attention module
    export: Export | None = None  # other formats to save it in as well
