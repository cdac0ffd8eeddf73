"""Shares as people write them, on the command line and in suite files."""

from __future__ import annotations

import math

LEAST_TRAINING = 1e-6  # no task trains its own model for a million steps: less is less than one step


def number(text: str) -> float:
    """``text`` as a number; NaN, which is in no range, for anything else."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def fraction(text: str) -> float:
    """``0.5`` or ``50%`` as 0.5; NaN for anything else."""
    return number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def training_share(share: float) -> float:
    """``share`` of a task's own training. Raises ValueError if it is above 1, or too small to be one step."""
    if not LEAST_TRAINING <= share <= 1:
        raise ValueError(f"expected a share from {LEAST_TRAINING:.6f} (less is not one step) to 1")
    return share
