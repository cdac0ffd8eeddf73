"""Run one cell: open the model, let the method choose, measure what is left."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from bench.measure import evaluate as quality
from bench.measure.cost import counting, peak_bytes, reset_peak, working
from bench.measure.exclusive import alone, beside_others
from bench.measure.generation import generation
from bench.measure.joint_evaluation import Arrivals
from bench.measure.latency import LEVELS, latency
from bench.measure.status import Heartbeat
from bench.measure.timed_models import Sizes
from bench.measure.view import view_of
from bench.records.protocol import PROTOCOL, count_at
from bench.records.provenance import provenance
from bench.suites.cells import Cell, open_task
from methods import METHODS
from methods.contract.choice import Choice
from methods.contract.choosing import select
from methods.contract.schedule import Trajectory
from methods.contract.side_effects import no_side_effects
from tasks.contract import Answers
from tasks.models.cache import Cache

Arrays = dict[str, Tensor]


def run_cell(cell: Cell, cache: Cache) -> tuple[dict[str, Any], Arrays]:
    """The record of ``cell`` and what lies beside it; the record of the failure, and nothing else, where it fails.

    Beside it lie the ``outcomes``, (draws, levels, N) bool, the likelihoods of texts where a task has such and, where
    neurons were removed, their removal orders or, of a joint method, those kept; of a scorer its ``scores``, by draw.

    Raises OSError: a full disk or a missing permission is no property of a cell.
    """
    record: dict[str, Any] = {"key": cell.key, "cell": describe(cell), "provenance": provenance()}
    try:
        with Heartbeat(f"{cell.method.label} on {cell.where}") as beat:
            result, measured, arrays = _measure(cell, cache, beat)
    except OSError:
        raise
    except (Exception, SystemExit) as error:  # a method's own fault must not stop the others
        reason = f"{type(error).__name__}: {str(error).strip() or 'no message'}".splitlines()[0]
        return record | {"status": "failed", "reason": reason, "traceback": traceback.format_exc()}, {}
    return record | {"status": "done", "result": result, "measured": measured}, arrays


def describe(cell: Cell) -> dict[str, Any]:
    """What ``cell`` is, in the words of its record."""
    method = METHODS[cell.method.name]
    return {
        "protocol": PROTOCOL,
        "task": cell.task.task,
        "data": cell.data,
        "model": cell.model,
        "origin": cell.origin,
        "method": cell.method.name,
        "label": cell.method.label,
        "options": cell.method.options,
        "source": method.source,
        "shape": method.shape,
        "control": method.is_control(cell.method.options),
        "seed": cell.seed,
        "calibration": cell.calibration,
        "trained": cell.training if method.shape == "joint" else None,  # share of the task's own training
        "device": cell.device,
        "asked": asdict(cell.task),
    }


def _measure(cell: Cell, cache: Cache, beat: Heartbeat) -> tuple[dict[str, Any], dict[str, Any], Arrays]:
    begin = time.perf_counter()
    device = torch.device(cell.device)
    task = open_task(cell.task)
    method = METHODS[cell.method.name]
    with beside_others() as turn, ExitStack() as stack:
        reset_peak(device)
        training = task.prepare(cell.seed, cache, device)
        model = task.open(cell.seed, cache, device).requires_grad_(False)
        stack.enter_context(turn.watching(model))
        view = view_of(task, model, method, cell.seed, cell.calibration, cell.training, device)
        units = len(view.heads)
        # Where generation is timed, a model is large: no training for other levels than those asked for.
        timed = set(cell.removed) if cell.generate else {count_at(level, units) for level in LEVELS}
        asked = sorted(timed.union(cell.removed))
        with (
            no_side_effects(model),
            counting(model) as passes,
            turn.timing(device) as choosing,
            working() as choosing_work,
        ):
            beat.at(lambda: f"choosing, {passes.forward} examples sent forward and {passes.backward} backward")
            arrivals = Arrivals(task, cell.removed, timed, passes, turn, device)
            selection = select(method, cell.method.options, view, asked, arrivals)
        choices = [[draw[asked.index(count)] for count in cell.removed] for draw in selection.choices]
        beat.at("evaluating")
        with turn.timing(device) as evaluation, working() as evaluation_work:
            found = arrivals.found
            evaluations = [[found[n] for n in cell.removed]] if found else quality.evaluate(task, choices)
        peak = peak_bytes(device)
        chosen = {}
        for count in sorted(timed):
            choice = selection.choices[0][asked.index(count)]
            key = choice.removed if choice.neurons is None else count  # a control may keep more than its budget
            chosen[key] = choice
        sizes = Sizes(chosen)
        gaps = [quality.gap(task, choice, sizes[key]) for key, choice in chosen.items()]
    beat.at("waiting to time latency alone")
    with alone():
        beat.at("timing latency")
        latencies = latency(task, sizes.groups(), device)
        generated = {"generation": generation(task, sizes.groups(), device)} if cell.generate else {}
    answers = [[level.answers for level in draw] for draw in evaluations]
    training_seconds = training.pop("seconds", 0.0)
    cost, no_cost = {"forward": passes.forward, "backward": passes.backward}, {"forward": 0, "backward": 0}
    trains = method.shape == "joint"
    result = {
        "units": units,
        "shape": list(view.heads.shape),
        "removed": list(cell.removed),
        "orders": selection.orders,  # one a draw; where there is none, the masks
        "kept": None if selection.orders else [choice.mask.nonzero().flatten().tolist() for choice in choices[0]],
        "neurons": any(choice.neurons for choice in choices[0]),  # the same share of them is removed
        "quality": [[level.quality for level in draw] for draw in answers],  # draws, levels
        "parts": dict(answers[0][0].parts),  # test examples of each sub-task, in the order of the outcomes
        "metrics": [[dict(level.metrics) for level in draw] for draw in answers],
        "chance": task.chance,
        "parameters": [level.parameters for level in evaluations[0]],  # at each level, of the first draw
        "megabytes": [level.megabytes for level in evaluations[0]],
        "passes": no_cost if trains else cost,  # examples, of scoring
        "gap": max(gaps),
        "training": training,  # of the task's model
        "method_training": {"passes": cost, "reports": selection.reports} if trains else None,
    }
    measured = {
        "seconds": time.perf_counter() - begin,
        "scoring_seconds": 0.0 if trains else choosing[0],
        "method_training_seconds": choosing[0] - arrivals.seconds if trains else 0.0,
        "evaluation_seconds": evaluation[0] + arrivals.seconds,
        "processor_seconds": {
            "choosing": choosing_work[0] - arrivals.processor_seconds,
            "evaluation": evaluation_work[0] + arrivals.processor_seconds,
        },
        "training_seconds": training_seconds,
        "peak_bytes": peak,
        "latency": latencies,
    } | generated
    neurons = _neurons_kept(choices[0]) if trains else _neuron_orders(selection.trajectories)
    return result, measured, _of_examples(answers) | neurons | _scores(selection.trajectories)


def _of_examples(answers: Sequence[Sequence[Answers]]) -> Arrays:
    """``outcomes``, (draws, levels, N) bool; where texts are scored, nats, (draws, levels, M), and bytes, (M,)."""
    first = answers[0][0]
    nats = {
        f"nats.{name}": torch.stack([torch.stack([level.nats[name] for level in draw]) for draw in answers]).float()
        for name in first.nats
    }
    outcomes = torch.stack([torch.stack([level.right for level in draw]) for draw in answers])
    return {"outcomes": outcomes} | nats | {f"bytes.{name}": size.int() for name, size in first.sizes.items()}


def _neuron_orders(trajectories: list[Trajectory]) -> Arrays:
    """Removal orders of neurons, (width,) int32, by draw and feed-forward layer."""
    return {
        f"neurons.{draw}.{name}": order.int()
        for draw, path in enumerate(trajectories)
        for name, order in (path.neurons or {}).items()
    }


def _scores(trajectories: list[Trajectory]) -> Arrays:
    """Importances, (scorings, units) float32, by draw; NaN for units that were gone by then."""
    return {f"scores.{draw}": path.scores.float() for draw, path in enumerate(trajectories) if path.scores is not None}


def _neurons_kept(choices: Sequence[Choice]) -> Arrays:
    """Neurons kept, (levels, width) bool, by feed-forward layer; nothing where all stay at every level."""
    some = next((choice.neurons for choice in choices if choice.neurons), {})
    return {
        f"neurons.{name}": torch.stack([(choice.neurons or {}).get(name, torch.ones_like(mask)) for choice in choices])
        for name, mask in some.items()
    }
