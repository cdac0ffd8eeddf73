"""Records on disk with outcomes, for what is read from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.records.protocol import PROTOCOL
from bench.records.store import Store
from bench.suites.cells import Cell
from bench.suites.parse import MethodSpec
from bench.suites.plugins import load_plugins
from methods import METHODS
from tasks.request import TaskSpec

EXAMPLES = 100


@pytest.fixture
def keep(tmp_path: Path, make_record) -> Callable[..., Path]:
    """Write the record of a method with these qualities, in 1/100, at 0, 4 and 8 units removed; returns its folder."""
    load_plugins()

    def write(
        method: str,
        *quality: Sequence[float],  # (levels,) for each draw
        seed: int = 0,
        task: str = "classification",
        orders: Sequence[Sequence[int]] | None = None,
        reason: str | None = None,  # of a failure
        result: dict[str, Any] | None = None,
        examples: int = EXAMPLES,
        protocol: int = PROTOCOL,
        **fields: Any,
    ) -> Path:
        quality = quality or ((0.9, 0.7, 0.5),)
        outcomes = np.stack([[np.arange(examples) < round(q * examples) for q in draw] for draw in quality])
        record = make_record(label=method, seed=seed, quality=outcomes.mean(2).tolist(), **fields)
        record["cell"] |= {"task": task, "protocol": protocol}
        record["result"] |= {"orders": orders or [list(range(8)) for _ in quality]} | (result or {})
        arrays = {"outcomes": torch.tensor(outcomes)}
        if reason:
            record, arrays = record | {"status": "failed", "reason": reason}, {}
        name, _, option = method.partition(":")
        options = METHODS[name].configure(dict([option.split("=")]) if option else {})
        data, model = record["cell"]["data"], record["cell"]["model"]
        cell = Cell(TaskSpec(task=task), data, model, MethodSpec(name, options), seed, (0, 4, 8), 128, 1.0, "cpu", "k")
        Store(tmp_path).write(cell, record | {"key": "k"}, arrays)
        return tmp_path

    return write
