"""Latency of a forward pass of the smaller models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial

import torch
from torch import nn

from bench.measure.timing import interleaved
from bench.records.schema import Latency, Samples
from tasks.contract import Task

BATCHES = (1, 8, 32)  # 8 is that of Li, Cotterell & Sachan 2021
WARM_UPS, REPEATS = 2, 20
PATIENCE = 20.0  # seconds after which the repeats of slow models end


@torch.no_grad()
def forward_latency(task: Task, groups: Iterable[Mapping[int, nn.Module]], device: torch.device) -> Latency:
    """Raw seconds by batch size and number of units removed.

    groups: models by number of units removed; those of a group are interleaved, and groups, whose models need not be
    held at the same time, are timed one after another.
    """
    probes = {size: task.probe(size, device) for size in BATCHES}
    samples: dict[int, Samples] = defaultdict(dict)
    timed = 0
    for models in groups:
        timed += 1
        calls = {
            (size, removed): partial(task.logits, model, probe)
            for size, probe in probes.items()
            for removed, model in models.items()
        }
        found = interleaved(calls, device, warm_ups=WARM_UPS, repeats=REPEATS, patience=PATIENCE)
        for (size, removed), seconds in found.items():
            samples[size][removed] = seconds
        dtype = str(next(next(iter(models.values())).parameters()).dtype).removeprefix("torch.")
        del models, calls  # before the next group is made
    return Latency(
        samples=dict(samples),
        interleaved=timed == 1,
        length={size: probe.inputs["input_ids"].shape[1] for size, probe in probes.items()},
        dtype=dtype,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        threads=torch.get_num_threads(),
    )
