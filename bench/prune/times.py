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


def times_of(task: Task, models: Sequence[nn.Module], device: torch.device) -> Times:
    """Times of some models, in their order, whose repeats are interleaved.

    On a CPU that other work shares, wall time says more about that work: there they are in processor time.
    """
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    found = time_forward(task, [dict(enumerate(models))], device, REPEATS).laps
    laps = {size: [of_size[index] for index in range(len(models))] for size, of_size in found.items()}
    every = [each for of_size in laps.values() for each in of_size]
    waited = share_waited(every) if device.type == "cpu" else 0.0
    busy = waited > BUSY
    spreads = {
        size: tuple(_spread(each.processor if busy else each.wall) for each in of_size)
        for size, of_size in laps.items()
    }
    repeats = min(len(each.wall) for each in every)
    return Times(spreads, repeats, device_name(device), busy, waited, load, processors)


def share_waited(laps: Sequence[Laps]) -> float:
    """Share of the wall time in which the process did not run, 0 to 1; 0 where it ran on several threads."""
    wall, processor = (sum(map(sum, column)) for column in zip(*laps, strict=True))
    return max(0.0, 1 - processor / wall)


def _spread(seconds: Sequence[float]) -> Spread:
    low, _, high = quantiles(seconds, n=4, method="inclusive")
    return Spread(1e3 * median(seconds), 1e3 * low, 1e3 * high)
