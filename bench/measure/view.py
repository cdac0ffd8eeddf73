"""What a method is given to see of a task."""

from __future__ import annotations

import torch
from torch import nn

from methods import Method, View
from methods.heads import HeadMap
from tasks.contract import Task
from tasks.request import CalibrationSource


def view_of(
    task: Task,
    model: nn.Module,
    method: Method,
    seed: int,
    calibration: int,
    training: float,
    device: torch.device,
    calibration_from: CalibrationSource = "held-out",
) -> View:
    """What ``method`` sees of ``task`` and ``model`` under ``seed``; the global generator starts from the seed too.

    calibration, calibration_from: number of examples to score on, and where they are drawn from. training: share of the
    task's own training that a joint method takes.
    """
    seeds = task.seeds(seed)
    torch.manual_seed(seeds.of("global generator"))  # for methods that draw from it, as dropout does
    heads = HeadMap.of(model, task.spec.unit, task.spec.kinds)
    return View(
        model=model,
        heads=heads,
        batches=task.calibration(seed, calibration, device, calibration_from),
        kept=heads.full_mask(),
        generator=torch.Generator().manual_seed(seeds.of("method")),
        forward=task.logits,
        loss_of_logits=task.loss,
        training=task.training(seed, training, device) if method.trains else None,
    )
