"""From what a method chose, and how it was evaluated, to the result of a record and the arrays beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.measure.cost import Passes
from bench.measure.evaluate import Level
from bench.records import result as record_fields
from methods import View
from methods.contract.choosing import Draw
from methods.contract.trace import Trace
from tasks.contract import Task

Draws = Sequence[tuple[Draw, Sequence[Level]]]


def result_of(
    draws: Draws,
    view: View,
    task: Task,
    removed: Sequence[int],
    passes: Passes,
    training: Mapping[str, Any],
    trains: bool,
) -> record_fields.Result:
    """The result of a cell. training: report on the task's own model. trains: whether the method trained too."""
    _, first = draws[0]
    outcomes = [[level.evaluation.outcomes for level in levels] for _, levels in draws]
    paths = [draw.trajectory for draw, _ in draws if draw.trajectory and draw.trajectory.order is not None]
    orders = [path.order.tolist() for path in paths if path.order is not None]
    cost, no_cost = (
        record_fields.Passes(forward=passes.forward, backward=passes.backward),
        record_fields.Passes(forward=0, backward=0),
    )
    by_count = {count: level for count, level in zip(removed, first, strict=True) if count}
    trained = record_fields.MethodTraining(
        passes=cost,
        reports={count: level.report for count, level in by_count.items()},
        traces={count: record_fields.Trace(**_lists(level.trace)) for count, level in by_count.items() if level.trace},
    )
    return record_fields.Result(
        units=len(view.heads),
        shape=list(view.heads.shape),
        never_empty=list(view.heads.never_empty),
        left_alone=dict(view.heads.left_alone),
        removed=list(removed),
        orders=orders or None,
        ties=[path.ties for path in paths] or None,
        kept=None if orders else [level.mask.nonzero().flatten().tolist() for level in first],
        calibration=view.examples,
        neurons=any(level.neurons for level in first),
        quality=[[level.quality for level in draw] for draw in outcomes],
        parts=dict(outcomes[0][0].parts),
        metrics=[[dict(level.metrics) for level in draw] for draw in outcomes],
        chance=task.guessing_quality,
        parameters=[level.evaluation.parameters for level in first],
        megabytes=[level.evaluation.megabytes for level in first],
        passes=no_cost if trains else cost,
        training=record_fields.ModelTraining(**{name: value for name, value in training.items() if name != "seconds"}),
        method_training=trained if trains else None,
    )


def _lists(trace: Trace) -> dict[str, list[float]]:
    return {field.name: list(getattr(trace, field.name)) for field in dataclasses.fields(trace)}


def arrays_of(draws: Draws) -> dict[str, np.ndarray]:
    """Arrays by name.

    outcomes: (draws, levels, N) bool. ``nats.PART``, where texts are scored: their negative log-likelihoods, (draws,
    levels, M) float32, and ``bytes.PART``: their lengths, (M,) int32. ``scores.DRAW``: importances that a scorer gave,
    (scorings, units) float32, NaN for units that were removed before. Where neurons are removed ``neurons.DRAW.LAYER``:
    their removal order, (width,) int16 or, of many, int32; of a joint method ``neurons.LAYER``: those kept, (levels,
    width) bool.
    """
    outcomes = [[level.evaluation.outcomes for level in levels] for _, levels in draws]
    first = outcomes[0][0]
    arrays = {"outcomes": torch.stack([torch.stack([level.correct for level in draw]) for draw in outcomes])}
    for name in first.negative_log_likelihoods:
        arrays[f"nats.{name}"] = torch.stack(
            [torch.stack([level.negative_log_likelihoods[name] for level in draw]) for draw in outcomes]
        ).float()
    arrays |= {f"bytes.{name}": sizes.int() for name, sizes in first.text_bytes.items()}
    first_draw, levels = draws[0]
    if first_draw.trajectory is None:  # no order of removal says which neurons a level keeps
        arrays |= _neurons_kept(levels)
    for number, (draw, _) in enumerate(draws):
        if path := draw.trajectory:
            arrays |= {f"neurons.{number}.{name}": _short(order) for name, order in (path.neurons or {}).items()}
            arrays |= {f"scores.{number}": path.scores.float()} if path.scores is not None else {}
    return {name: values.numpy() for name, values in arrays.items()}


def _short(order: Tensor) -> Tensor:
    """An order of neurons, (width,), in as few bytes as hold it: it is most of a record where all draws have one."""
    return order.to(torch.int16 if len(order) <= 2**15 else torch.int32)


def _neurons_kept(levels: Sequence[Level]) -> dict[str, Tensor]:
    """Neurons kept, (levels, width) bool, by feed-forward layer; nothing where all stay at every level."""
    some = next((level.neurons for level in levels if level.neurons), {})
    return {
        f"neurons.{name}": torch.stack([(level.neurons or {}).get(name, torch.ones_like(mask)) for level in levels])
        for name, mask in some.items()
    }
