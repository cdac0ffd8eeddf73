"""How to run a suite, as the command line says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

EXACT = 1e-6  # shares of GPUs are not exact: three of a third are one


@dataclass(frozen=True)
class ClusterOptions:
    """Which cluster to run on, and what a cell takes of it. address: as Ray writes it; empty to start a local one."""

    address: str = ""
    cpus: int = 1
    gpus: float = 0.0

    @property
    def resources(self) -> str:
        """What a cell takes, in words."""
        return f"{self.cpus} CPU" + (f" and {self.gpus:g} GPU" if self.gpus else "")

    def fit(self, gpus: float) -> int:
        """How many cells fit on so many GPUs of one machine, where they take any. A cell's share is of a single GPU.

        A part of a GPU is what others have left of one.
        """
        if self.gpus >= 1:
            return int(gpus / self.gpus + EXACT)
        whole = int(gpus + EXACT)
        return whole * int(1 / self.gpus + EXACT) + int(max(0.0, gpus - whole) / self.gpus + EXACT)


@dataclass(frozen=True)
class RunOptions:
    """How to run a suite."""

    out: Path
    jobs: int | None  # at once; None for one per core or, on a cluster, all that it has room for
    device: str
    retry_failed: bool = False
    dry_run: bool = False
    no_cache: bool = False
    latency: bool = True
    timeout: float | None = None  # seconds that a cell may take
    cluster: ClusterOptions | None = None  # None for processes on this machine
