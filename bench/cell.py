"""Run one cell: open the model, let the method choose, measure what is left."""

from __future__ import annotations

import time
import traceback
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from bench import quality
from bench.cost import counting, peak_bytes, reset_peak, timing
from bench.latency import LEVELS, alone, beside_others, latency
from bench.plan import Cell, open_task
from bench.provenance import provenance
from bench.selection import select, view_of
from bench.suite import count_at
from methods import METHODS
from methods.heads import remove_heads
from tasks.cache import Cache


def run_cell(cell: Cell, cache: Cache) -> tuple[dict[str, Any], Tensor | None]:
    """The record of ``cell`` and its outcomes (draws, levels, N); the record of the failure where it fails.

    Raises OSError: a full disk or a missing permission is no property of a cell.
    """
    record: dict[str, Any] = {"key": cell.key, "cell": describe(cell), "provenance": provenance()}
    try:
        result, measured, outcomes = _measure(cell, cache)
    except OSError:
        raise
    except Exception as error:  # a method's own fault must not stop the others
        reason = f"{type(error).__name__}: {str(error).strip() or 'no message'}".splitlines()[0]
        return record | {"status": "failed", "reason": reason, "traceback": traceback.format_exc()}, None
    return record | {"status": "done", "result": result, "measured": measured}, outcomes


def describe(cell: Cell) -> dict[str, Any]:
    """What ``cell`` is, in the words of its record."""
    method = METHODS[cell.method.name]
    return {
        "task": cell.task.task,
        "data": cell.data,
        "model": cell.model,
        "method": cell.method.name,
        "label": cell.method.label,
        "options": cell.method.options,
        "source": method.source,
        "shape": method.shape,
        "control": method.control or bool(cell.method.options.get("inverse")),
        "seed": cell.seed,
        "calibration": cell.calibration,
        "device": cell.device,
        "asked": asdict(cell.task),
    }


def _measure(cell: Cell, cache: Cache) -> tuple[dict[str, Any], dict[str, Any], Tensor]:
    begin = time.perf_counter()
    device = torch.device(cell.device)
    task = open_task(cell.task)
    method = METHODS[cell.method.name]
    with beside_others():
        reset_peak(device)
        training = task.prepare(cell.seed, cache, device)
        model = task.open(cell.seed, cache, device).requires_grad_(False)
        view = view_of(task, model, cell.seed, cell.calibration, device)
        heads = view.heads
        timed = {count_at(level, len(heads)) for level in LEVELS}
        asked = sorted(timed.union(cell.removed))
        with counting(model) as passes, timing(device) as scoring:
            selection = select(method, cell.method.options, view, asked)
        masks = selection.masks[:, [asked.index(count) for count in cell.removed]]  # (draws, levels, units)
        with timing(device) as evaluation:
            evaluations = quality.evaluate(task, model, heads, masks)
        peak = peak_bytes(device)
        smaller, gaps = {}, []
        for mask in selection.masks[0, [asked.index(count) for count in sorted(timed)]]:
            smaller[int((~mask).sum())] = remove_heads(model, mask, heads)
            gaps.append(quality.gap(task, model, heads, smaller[int((~mask).sum())], mask))
    with alone():
        latencies = latency(task, smaller, device)
    outcomes = torch.stack([torch.stack([level.outcomes for level in draw]) for draw in evaluations])
    training_seconds = training.pop("seconds", 0.0)
    result = {
        "units": len(heads),
        "shape": list(heads.shape),
        "removed": list(cell.removed),
        "orders": selection.orders,  # one a draw; a selector has masks only
        "kept": None if selection.orders else [mask.nonzero().flatten().tolist() for mask in masks[0]],
        "quality": outcomes.double().mean(2).tolist(),  # draws, levels
        "chance": task.chance,
        "parameters": [level.parameters for level in evaluations[0]],  # at each level, of the first draw
        "megabytes": [level.megabytes for level in evaluations[0]],
        "passes": {"forward": passes.forward, "backward": passes.backward},  # examples, of scoring
        "gap": max(gaps),
        "training": training,
    }
    measured = {
        "seconds": time.perf_counter() - begin,
        "scoring_seconds": scoring[0],
        "evaluation_seconds": evaluation[0],
        "training_seconds": training_seconds,
        "peak_bytes": peak,
        "latency": latencies,
    }
    return result, measured, outcomes
