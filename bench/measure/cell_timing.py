"""Time the smaller models of a cell that was run before, from what its record says was kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping

import numpy as np
import torch
from torch import nn

from bench.measure.cell import check_origin
from bench.measure.generation import generation_latency
from bench.measure.latency import forward_latency
from bench.measure.status import Status
from bench.measure.timing import groups, timed_levels
from bench.records.arrays import neuron_orders, neurons_kept
from bench.records.result import Result
from bench.records.schema import FinishedRecord
from bench.suites.cells import Cell, open_task
from methods.contract.choice import Choice
from methods.contract.schedule import Trajectory
from methods.heads import HeadMap
from tasks.models.cache import Cache

_at_hand: dict[Hashable, nn.Module] = {}  # the last model that cells were timed on: nothing changes it


def time_cell(
    cell: Cell,
    record: FinishedRecord,
    arrays: Mapping[str, np.ndarray],
    cache: Cache,
    alone: Callable[[], bool | None],
) -> FinishedRecord:
    """The record with its latency.

    alone: whether no other run of this user is at work on this machine; None if that is not known. It is asked before
    and after, as another run may start or end meanwhile.

    Time depends on shapes, not on the values of weights: what a joint method trained need not be kept for it.
    """
    started = time.perf_counter()
    device = torch.device(cell.device)
    task = open_task(cell.task)
    with Status(f"timing {cell.method.label} on {cell.where}"):
        model = _opened(cell, cache, device)
        heads = HeadMap.of(model, cell.task.unit, cell.task.kinds)
        choices = recorded_choices(model, heads, record.result, arrays, cell.generate)
        before = alone()
        latency = forward_latency(task, groups(choices), device)
        generation = generation_latency(task, groups(choices), device) if cell.generate else None
        both = {before, alone()}
        latency = latency.updated(alone=False if False in both else None if None in both else True)
    seconds = time.perf_counter() - started
    measured = record.measured.updated(latency=latency, generation=generation, timing_seconds=seconds)
    return record.updated(measured=measured)


def _opened(cell: Cell, cache: Cache, device: torch.device) -> nn.Module:
    """The model of ``cell``; the one at hand if the cell before had the same."""
    place = cell.task, cell.seed, device, cache.root
    if place not in _at_hand:
        _at_hand.clear()  # before another is opened
        task = open_task(cell.task)
        check_origin(cell, task)
        task.prepare(cell.seed, cache, device)
        _at_hand[place] = task.open(cell.seed, cache, device).requires_grad_(False)
    return _at_hand[place]


def recorded_choices(
    model: nn.Module, heads: HeadMap, result: Result, arrays: Mapping[str, np.ndarray], generate: bool
) -> dict[int, Choice]:
    """What a record says is kept of ``model`` at the timed levels, in the first draw, by number of units removed.

    A control that keeps more than its budget has fewer entries: one for each number that it does remove.
    """
    units = len(heads)
    orders = {name: torch.from_numpy(order).long() for name, order in neuron_orders(arrays).items()} or None
    masks = {name: torch.from_numpy(kept) for name, kept in neurons_kept(arrays).items()}
    choices: dict[int, Choice] = {}
    for level in timed_levels(tuple(result.removed), units, generate):
        place = result.removed.index(level)
        if result.kept is not None and orders is None:
            mask = torch.zeros(units, dtype=torch.bool)
            mask[result.kept[place]] = True
            left = {name: kept[place] for name, kept in masks.items()} or None
        else:
            path = Trajectory(torch.tensor(result.orders[0]) if result.orders else None, orders)
            mask, left = path.units_kept(level, units), path.neurons_kept(level, units)
        choice = Choice(model, heads, mask, left)
        choices.setdefault(choice.removed if left is None else level, choice)
    return choices
