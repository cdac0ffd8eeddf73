"""Latency of a forward pass of the smaller models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from bench.measure.timing import Laps, interleaved
from bench.records.measured import Latency
from bench.records.provenance import provenance
from tasks.contract import Task

BATCHES = (1, 8, 32)  # 8 is that of Li, Cotterell & Sachan 2021
WARM_UPS, REPEATS = 1, 6  # of each cell; figures are medians over its repeats, and means over seeds
PATIENCE = 20.0  # seconds after which the repeats of a batch size end


@dataclass(frozen=True)
class ForwardTimes:
    """Times of forward passes."""

    laps: Mapping[int, Mapping[int, Laps]]  # by batch size, by number of units removed
    interleaved: bool  # whether each repeat timed all smaller models in turn
    length: Mapping[int, int]  # tokens of each example, by batch size
    dtype: str


@torch.no_grad()
def time_forward(
    task: Task, groups: Iterable[Mapping[int, nn.Module]], device: torch.device, repeats: int = REPEATS
) -> ForwardTimes:
    """Times of a forward pass for each of ``BATCHES``.

    groups: models by number of units removed; those of a group are interleaved, and groups, whose models need not be
    held at the same time, are timed one after another. So are batch sizes: a large batch leaves the processor's caches
    without the weights, which the next pass of a single text would pay for, and always that of the same model.
    """
    probes = {size: task.probe(size, device) for size in BATCHES}
    times: dict[int, dict[int, Laps]] = defaultdict(dict)
    timed = 0
    for models in groups:
        timed += 1
        for size, probe in probes.items():
            calls = {removed: partial(task.logits, model, probe) for removed, model in models.items()}
            times[size] |= interleaved(calls, device, warm_ups=WARM_UPS, repeats=repeats, patience=PATIENCE)
        dtype = str(next(next(iter(models.values())).parameters()).dtype).removeprefix("torch.")
        del models, calls  # before the next group is made
    length = {size: probe.inputs["input_ids"].shape[1] for size, probe in probes.items()}
    return ForwardTimes(dict(times), timed == 1, length, dtype)


def forward_latency(task: Task, groups: Iterable[Mapping[int, nn.Module]], device: torch.device) -> Latency:
    """Raw seconds of a forward pass as a record holds them; arguments as ``time_forward`` takes them."""
    times = time_forward(task, groups, device)
    return Latency(
        samples={size: {count: laps.wall for count, laps in each.items()} for size, each in times.laps.items()},
        interleaved=times.interleaved,
        length=dict(times.length),
        dtype=times.dtype,
        device=device_name(device),
        processor=provenance().processor,
        threads=torch.get_num_threads(),
    )


def device_name(device: torch.device) -> str:
    """``cpu``, or the name of the GPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
