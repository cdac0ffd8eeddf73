"""Latency of smaller models, with repeats of all sizes that fit in memory interleaved."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from bench.measure.cost import timing
from tasks.contract import Task
from tasks.data.encode import Batch

LEVELS = (0.0, 0.25, 0.5, 0.75, 0.9)
BATCHES = (1, 32)
WARM_UPS, REPEATS = 2, 20
PATIENCE = 20.0  # seconds after which a slow model's repeats end, five at least


@torch.no_grad()
def latency(task: Task, groups: Iterable[Mapping[int, nn.Module]], device: torch.device) -> dict[str, Any]:
    """Raw seconds of a forward pass: for each batch size, for each number of units removed, a list of samples.

    Within a group, one repeat takes every model once, so that a slow moment of the machine hits all of them alike;
    groups, whose models need not be there at the same time, are taken one after another.
    """
    probes = {size: task.probe(size, device) for size in BATCHES}
    samples: dict[int, dict[int, list[float]]] = {size: {} for size in BATCHES}
    timed = 0
    for models in groups:
        timed += 1
        for size, of_size in _timed(task, models, probes, device).items():
            samples[size] |= of_size
        parameter = next(next(iter(models.values())).parameters())
        dtype = str(parameter.dtype).removeprefix("torch.")
        del models, parameter  # before the next group is made
    return {
        "samples": {str(size): {str(r): s for r, s in by.items()} for size, by in samples.items()},
        "interleaved": timed == 1,
        "length": {str(size): probe.inputs["input_ids"].shape[1] for size, probe in probes.items()},
        "dtype": dtype,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
    }


def _timed(
    task: Task, models: Mapping[int, nn.Module], probes: Mapping[int, Batch], device: torch.device
) -> dict[int, dict[int, list[float]]]:
    """Samples by batch size and number of units removed, of models whose repeats are interleaved."""
    samples: dict[int, dict[int, list[float]]] = {size: {removed: [] for removed in models} for size in probes}
    begin = time.perf_counter()
    for repeat in range(WARM_UPS + REPEATS):
        if repeat >= WARM_UPS + 5 and time.perf_counter() - begin > PATIENCE:
            break
        for size, probe in probes.items():
            for removed, model in models.items():
                with timing(device) as seconds:
                    task.logits(model, probe)
                if repeat >= WARM_UPS:
                    samples[size][removed] += seconds
    return samples
