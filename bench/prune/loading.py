"""Whether what was saved loads as the model that it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from bench.measure.exactness import NotExact, gap_between, tolerance_of
from methods.heads import load_pruned
from tasks.contract import Task


@torch.no_grad()
def check_loading(task: Task, smaller: Any, folder: Path, plain: bool) -> None:
    """Raise NotExact unless the checkpoint in ``folder`` gives the logits of ``smaller``, which is on the CPU.

    It may be saved in fewer bits, which hold its weights exactly: it is compared in the type of ``smaller``.

    plain: whether ``from_pretrained`` of transformers, which is checked then, has to load it as ``load_pruned`` does.
    """
    batch = task.probe(1, torch.device("cpu"))
    expected = task.logits(smaller, batch)
    loads = {"load_pruned": load_pruned}
    if plain:
        loads["from_pretrained of transformers"] = lambda path: type(smaller).from_pretrained(path, dtype=smaller.dtype)
    for name, load in loads.items():
        loaded: Any = load(folder).eval()
        if loaded.dtype != smaller.dtype:
            loaded = loaded.to(smaller.dtype)
        difference = gap_between(task.logits(loaded, batch), expected)
        if not difference <= tolerance_of(smaller.dtype):
            raise NotExact(
                f"{name} loads a model whose logits differ from the smaller model's by {difference:.1e} of their scale"
            )
