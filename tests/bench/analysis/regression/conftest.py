"""Folders of records that differ in what a test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.__main__ import main
from bench.records.protocol import PROTOCOL
from bench.records.schema import FailedRecord
from bench.records.storage.store import Store

PACKAGES = {"headbench": "0.1.0", "torch": "2.13", "transformers": "5.23"}


@pytest.fixture
def keep(tmp_path: Path, make_record) -> Callable[..., Path]:
    """Write records of a method into a folder, one per seed, with these qualities; returns the folder."""

    def write(
        name: str,
        method: str = "michel",
        quality: Sequence[float] = (0.9, 0.7, 0.5),  # with 0, 4 and 8 units removed
        seeds: Sequence[int] = (0,),
        task: str = "classification",
        data: str = "data",
        orders: Sequence[Sequence[int]] = (tuple(range(8)),),
        scoring: Callable[[int], float] = lambda seed: 0.5,
        shift: int = 0,  # the documents that are right are shifted by so many places
        processor: str = "A",
        parts: dict[str, int] | None = None,
        reason: str = "",  # of a failure
        calibration: int = 128,
        protocol: int = PROTOCOL,
        asked: dict[str, Any] | None = None,  # of data with one digest
        texts: bool = False,  # texts are scored, and nothing is right or wrong
        packages: dict[str, str] | None = None,  # other versions
        device: str = "cpu",
        measured: dict[str, Any] | None = None,
        arrays: dict[str, np.ndarray] | None = None,  # beside the outcomes
        **result: Any,
    ) -> Path:
        parts = {"data": 200} if parts is None else parts
        right = [np.concatenate([np.arange(size) < round(q * size) for size in parts.values()]) for q in quality]
        outcomes = np.roll(np.stack([right]), shift, axis=-1)
        request = {} if asked is None else {"origin": "f" * 64, "asked": asked}
        for seed in seeds:
            record = make_record(
                label=method,
                seed=seed,
                quality=[[mean(row, parts) for row in draw] for draw in outcomes],
                cell={"task": task, "data": data, "calibration": calibration, "protocol": protocol, "device": device}
                | request,
                provenance={
                    "processor": processor,
                    "packages": PACKAGES | (packages or {}),
                    "python": "3.11",
                    "system": "Linux",
                },
                result={"orders": orders, "parts": {} if texts else parts} | result,
                measured={"processor_seconds": {"choosing": scoring(seed), "evaluation": 2.0}} | (measured or {}),
            )
            store, cell = Store(tmp_path / name), f"{task}.{data}.model/{method}/seed{seed}"
            if reason:
                store.write(cell, FailedRecord(cell=record.cell, provenance=record.provenance, reason=reason))
            else:
                store.write(cell, record, {"outcomes": outcomes} | (arrays or {}))
        return tmp_path / name

    return write


def mean(right: np.ndarray, parts: dict[str, int]) -> float:
    """Share of right answers, (N,), averaged over sub-tasks."""
    return float(np.mean([part.mean() for part in np.split(right, np.cumsum(list(parts.values()))[:-1])]))


@pytest.fixture
def regress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Judge the folder ``after`` by ``before``; the exit code and what is printed."""

    def run(*flags: str, before: Path | str = "before", after: Path | str = "after") -> tuple[int, str]:
        capsys.readouterr()
        code = main(["regress", "--baseline", str(tmp_path / before), str(tmp_path / after), *flags])
        return code, capsys.readouterr().out

    return run
