"""What a method is given to see of a task."""

from __future__ import annotations

import torch
from torch import nn

from methods import Method, View
from methods.heads import HeadMap
from tasks.contract import Task


def view_of(
    task: Task, model: nn.Module, method: Method, seed: int, calibration: int, training: float, device: torch.device
) -> View:
    """What ``method`` sees of ``task`` and ``model`` under ``seed``; the global generator starts from the seed too.

    calibration: number of examples to score on. training: share of the task's own training that a joint method takes.
    """
    torch.manual_seed(seed)  # for methods that draw from it, as dropout does
    heads = HeadMap.of(model, task.spec.unit)
    return View(
        model=model,
        heads=heads,
        batches=task.calibration(seed, calibration, device),
        kept=heads.full_mask(),
        generator=torch.Generator().manual_seed(seed),
        forward=task.logits,
        loss_of_logits=task.loss,
        training=task.training(seed, training, device) if method.shape == "joint" else None,
    )
