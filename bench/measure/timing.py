"""Time the physically smaller models of one cell: forward passes and, if asked for, generation."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import torch
from torch import nn

from bench.measure.cost import settle
from bench.records.protocol import nearest_count
from methods.contract.choice import Choice

SHARES = (0.0, 0.25, 0.5, 0.75, 0.9)  # of the units removed, at which models are timed if quality is at more levels
LEAST_REPEATS = 5
TOGETHER = 4 * 2**30  # bytes of weights up to which models of all sizes are held at once
Key = TypeVar("Key", bound=Hashable)


class Laps(NamedTuple):
    """Seconds of each repeat of a call: on the clock, and those that the process ran, on all its threads."""

    wall: list[float]
    processor: list[float]


def timed_levels(levels: tuple[int, ...], units: int, generate: bool) -> list[int]:
    """Those of ``levels``, numbers of units removed, at which models are timed.

    All of them if there are no more than ``SHARES``, or if generation is timed: there a model is large, and its levels
    are few. Otherwise the nearest to ``SHARES``.
    """
    if generate or len(levels) <= len(SHARES):
        return sorted(levels)
    return sorted({nearest_count(share, levels, units) for share in SHARES})


def groups(choices: Mapping[int, Choice]) -> Iterator[dict[int, nn.Module]]:
    """Smaller models by number of units removed, in groups that are held in memory at the same time.

    Where as many whole models as there are sizes fit in ``TOGETHER``, all are in one group, so that their repeats can
    be interleaved; else each is alone. (Free memory does not decide: a cell is to be measured alike everywhere.)
    """
    whole = max((_nbytes(choice.model) for choice in choices.values()), default=0)
    for group in [list(choices)] if whole * len(choices) <= TOGETHER else [[level] for level in choices]:
        yield {level: choices[level].smaller() for level in group}


def interleaved(
    calls: Mapping[Key, Callable[[], object]], device: torch.device, *, warm_ups: int, repeats: int, patience: float
) -> dict[Key, Laps]:
    """Seconds of each call, ``repeats`` times after ``warm_ups``, waiting for work queued on a GPU.

    One repeat makes every call once, so that a slow moment of the machine hits all of them alike. After ``patience``
    seconds repeats end, five at least.
    """
    found = {key: Laps([], []) for key in calls}
    started = time.perf_counter()
    for repeat in range(warm_ups + repeats):
        if repeat >= warm_ups + LEAST_REPEATS and time.perf_counter() - started > patience:
            break
        for key, call in calls.items():
            settle(device)
            wall, processor = time.perf_counter(), time.process_time()
            call()
            settle(device)
            if repeat >= warm_ups:
                found[key].wall.append(round(time.perf_counter() - wall, 7))
                found[key].processor.append(round(time.process_time() - processor, 7))
    return found


def _nbytes(model: nn.Module) -> int:
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())
