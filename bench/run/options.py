"""How to run a suite, as the command line says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunOptions:
    """How to run a suite."""

    out: Path
    jobs: int
    device: str
    retry_failed: bool = False
    dry_run: bool = False
    no_cache: bool = False
    latency: bool = True
    timeout: float | None = None  # seconds that a cell may take
