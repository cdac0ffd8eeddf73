"""How long a forward pass takes before and after pruning, and how busy the machine was."""

from __future__ import annotations

import os
from collections.abc import Sequence
from statistics import median, quantiles

import torch
from torch import nn

from bench.measure.latency import device_name, time_forward
from bench.measure.timing import Laps
from bench.prune.card import Spread, Times
from tasks.contract import Task

REPEATS = 20  # of one comparison, which is all that its card rests on
BUSY = 0.1  # share of the wall time spent waiting from which processor time is shown


def times_of(task: Task, model: nn.Module, smaller: nn.Module, device: torch.device) -> Times:
    """Times of both models, whose repeats are interleaved.

    On a CPU that other work shares, wall time says more about that work: there they are in processor time.
    """
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    laps = time_forward(task, [{0: model, 1: smaller}], device, REPEATS).laps
    pairs = {size: (found[0], found[1]) for size, found in laps.items()}
    waited = share_waited([each for pair in pairs.values() for each in pair]) if device.type == "cpu" else 0.0
    busy = waited > BUSY
    spreads = {
        size: (_spread(before.processor if busy else before.wall), _spread(after.processor if busy else after.wall))
        for size, (before, after) in pairs.items()
    }
    repeats = min(len(each.wall) for pair in pairs.values() for each in pair)
    return Times(spreads, repeats, device_name(device), busy, waited, load, processors)


def share_waited(laps: Sequence[Laps]) -> float:
    """Share of the wall time in which the process did not run, 0 to 1; 0 where it ran on several threads."""
    wall, processor = (sum(map(sum, column)) for column in zip(*laps, strict=True))
    return max(0.0, 1 - processor / wall)


def _spread(seconds: Sequence[float]) -> Spread:
    low, _, high = quantiles(seconds, n=4, method="inclusive")
    return Spread(1e3 * median(seconds), 1e3 * low, 1e3 * high)
