"""Records on disk with outcomes, for statistics on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.records.protocol import PROTOCOL
from bench.records.schema import FailedRecord
from bench.records.storage.store import Store

EXAMPLES = 100


@pytest.fixture
def keep(tmp_path: Path, make_record) -> Callable[..., Path]:
    """Write the record of a method with these qualities, in 1/100, at 0, 4 and 8 units removed; returns the folder."""

    def write(
        method: str,
        *quality: Sequence[float],  # (levels,) for each draw
        seed: int = 0,
        task: str = "classification",
        data: str = "data",
        orders: Sequence[Sequence[int]] | None = None,
        reason: str | None = None,  # of a failure
        result: dict[str, Any] | None = None,
        protocol: int = PROTOCOL,
        change: dict[str, Any] | None = None,  # of the cell
        **fields: Any,
    ) -> Path:
        quality = quality or ((0.9, 0.7, 0.5),)
        outcomes = np.stack([[np.arange(EXAMPLES) < round(q * EXAMPLES) for q in draw] for draw in quality])
        record = make_record(
            label=method,
            seed=seed,
            data=data,
            quality=outcomes.mean(2).tolist(),
            cell={"task": task, "protocol": protocol} | (change or {}),
            result={"orders": orders or [list(range(8)) for _ in quality]} | (result or {}),
            **fields,
        )
        name = f"{task}.{data}.model/{method}/seed{seed}"
        if reason:
            Store(tmp_path).write(name, FailedRecord(cell=record.cell, provenance=record.provenance, reason=reason))
        else:
            Store(tmp_path).write(name, record, {"outcomes": outcomes})
        return tmp_path

    return write
