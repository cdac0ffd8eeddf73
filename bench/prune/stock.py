"""Whether transformers alone loads a pruned checkpoint as the model that it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from bench.measure.exactness import NotExact, tolerance_of
from tasks.contract import Task


@torch.no_grad()
def check_stock_loading(task: Task, smaller: Any, folder: Path) -> None:
    """Raise NotExact unless ``from_pretrained`` gives a model with the logits of ``smaller``, which is on the CPU."""
    loaded = type(smaller).from_pretrained(folder, dtype=smaller.dtype).eval()
    batch = task.probe(1, torch.device("cpu"))
    expected, found = task.logits(smaller, batch).float(), task.logits(loaded, batch).float()
    difference = float((found - expected).abs().max() / expected.abs().max().clamp_min(1))
    if not difference <= tolerance_of(smaller.dtype):
        raise NotExact(
            f"from_pretrained of transformers loads a model whose logits differ from the smaller model's by "
            f"{difference:.1e} of their scale"
        )
