"""The verb ``prune``: from a model and a task to a smaller checkpoint that loads."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from bench.analysis.naming import count
from bench.analysis.quality import name_of_quality
from bench.exports.onnx_files import check_installed
from bench.measure.cost import counting
from bench.measure.evaluate import evaluate_model
from bench.measure.exactness import NotExact, largest_gap
from bench.measure.isolation import same_outputs
from bench.measure.status import Status
from bench.measure.view import view_of
from bench.prune.card import Pruned
from bench.prune.chance import warning
from bench.prune.defaults import DEFAULTS
from bench.prune.metadata import command, local_paths
from bench.prune.options import PruneOptions
from bench.prune.precision import half_of, round_weights
from bench.prune.saving import save
from bench.prune.target import Target, target_of
from bench.prune.times import times_of
from bench.prune.uniform import with_allocation
from bench.records.errors import InputError
from bench.records.storage.files import folders_above
from bench.suites.cells import calibration_source, check_start, open_task
from methods import METHODS, OptionError
from methods.contract.choice import Choice
from methods.contract.choosing import MethodError
from methods.contract.method import RECOVER
from methods.contract.schedule import NonFiniteScore
from methods.contract.side_effects import SideEffect, no_side_effects, same_texts
from methods.heads import HeadMap, UnsupportedArchitecture, kept_heads, unpruned_heads
from methods.heads.surgery.rebuild import neuron_counts
from methods.recovery.choosing import choose
from tasks.contract import Task
from tasks.models.cache import Cache
from tasks.models.steps import steps_reported_to
from tasks.request import CalibrationSource
from tasks.translating.scores import CorpusOutcomes


def prune(options: PruneOptions, cache: Cache) -> int:
    """Score, remove, check, evaluate and save; 0. Raises InputError, and what the task or the model raises."""
    out = options.out.resolve()  # a link to a folder stays one
    inside = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    if inside or (out.exists() and not out.is_dir()):
        holds = f" (it holds {inside[0]})" if inside else ""
        raise InputError(f"--out {options.out}: exists already; give a new or empty folder{holds}")
    with folders_above(out / "config.json" if out.exists() else out, options.out):
        return _prune(options, out, cache)


def _prune(options: PruneOptions, out: Path, cache: Cache) -> int:
    """The same, to the folder ``out``, which is new or empty."""
    if options.export:
        check_installed()
    torch.set_num_threads(1)  # as in a run, whose trained models this shares
    device = torch.device(options.device)
    task = open_task(options.task)
    check_start(options.method, task)
    if options.training != DEFAULTS["training"] and not METHODS[options.method.name].trains:
        raise InputError(f"--training is for methods that train, and {options.method.name} does not")
    command_line, local = command(options), local_paths(options)
    if options.uniform:
        options = replace(options, method=with_allocation(options.method, "layer"))
    source = calibration_source(task, options.calibration, options.calibration_from)
    target = target_of(options, task)
    if about_data := _about_data(options, task):
        print(about_data, flush=True)
    with _one_line(options):
        _prepare(task, options.seed, cache, device)
        model: Any = task.open(options.seed, cache, device).requires_grad_(False)
        before, half = evaluate_model(task, model), half_of(task, model)
        seen, choice, examples = _chosen(options, task, model, target.keep, device, source)
        uneven = None
        if options.uniform and choice.removed:  # of neurons every layer loses the same share anyway
            free = replace(options, method=with_allocation(options.method, "global"))
            other = _chosen(free, task, model, target.keep, device, source).choice
            round_weights(other.model, half)
            uneven = task.evaluate(other.smaller()).quality
        round_weights(choice.model, half)
        smaller: Any = choice.smaller()
        gap = largest_gap(task, choice, smaller)
        after = evaluate_model(task, smaller)
    quality_name = name_of_quality(bool(before.outcomes.parts), isinstance(before.outcomes, CorpusOutcomes))
    size = half.itemsize / model.dtype.itemsize if half else 1
    sites = HeadMap.of(model).sites  # all, also those of kinds that were left alone
    pruned = Pruned(
        model=task.model_name,
        task=options.task.task,
        data=task.data_name,
        about_data=about_data,
        method=options.method.label,
        source=METHODS[options.method.name].source,
        seed=options.seed,
        calibration=examples,
        calibration_from=source,
        trained=_trained(choice.report) if METHODS[options.method.name].trains else "",
        recovered=_recovered(options, choice),
        kept={site.name: kept_heads(smaller.get_submodule(site.name), site) for site in sites},
        neurons=_neurons_left(smaller, target),
        heads={site.name: site.num_heads for site in sites},
        unpruned={site.name: unpruned_heads(model.get_submodule(site.name), site) for site in sites},
        tied={site.name: site.calls for site in sites if site.calls > 1},
        kinds=target.heads.kinds,
        examples=sum(before.outcomes.parts.values()),
        guessing=task.guessing_quality,
        quality=(before.outcomes.quality, after.outcomes.quality),
        quality_name=quality_name,
        at_chance=warning(before.outcomes, task.guessing_quality, quality_name),
        metrics={name: (value, after.outcomes.metrics[name]) for name, value in before.outcomes.metrics.items()},
        parameters=(before.parameters["model"], after.parameters["model"]),
        megabytes=(size * before.megabytes["model"], size * after.megabytes["model"]),
        half=half,
        times=times_of(task, [model, smaller], device),
        gap=gap,
        command=command_line,
        local=local,
        uneven=uneven,
        never_empty=len(seen.never_empty),
        left_alone=tuple(seen.left_alone),
        own_number=target.keep is None,
    )
    with _one_line(options):
        text = save(smaller, task, pruned, out, options)
    print(text.partition("## Load it")[0].rstrip())
    print(f"\nSaved: {options.out}", flush=True)
    if pruned.at_chance:
        print(f"headbench: {pruned.at_chance}", file=sys.stderr)
    return 0


def _about_data(options: PruneOptions, task: Task) -> str:
    """What is known of data of the user's own; nothing of others."""
    own = task.own_data
    if not own:
        return ""
    name = f"texts of {own.name} to prune with" if options.task.harness_tasks else task.data_name
    return "; ".join([f"{name}: {own.sizes}", *own.remarks])


def _neurons_left(smaller: nn.Module, target: Target) -> dict[str, tuple[int, int]]:
    """Neurons before and after, of each feed-forward layer that has lost some."""
    counts = {name: (target.neurons[name], left) for name, left in neuron_counts(smaller).items()}
    return {name: (before, left) for name, (before, left) in counts.items() if left < before}


class _Chosen(NamedTuple):
    """What a method chose, from which heads, and how many calibration texts it read for that."""

    heads: HeadMap
    choice: Choice
    examples: int


def _chosen(
    options: PruneOptions,
    task: Task,
    model: nn.Module,
    keep: int | None,
    device: torch.device,
    source: CalibrationSource,
) -> _Chosen:
    """The choice that the method makes of ``keep`` units, or of as many as it finds right.

    Raises InputError if it keeps another number.
    """
    method = METHODS[options.method.name]
    view = view_of(task, model, method, options.seed, options.calibration, options.training, device, source)
    with (
        same_outputs(task, model),
        counting(model) as passes,
        no_side_effects(model),
        same_texts(view),
        _refusals(options),
    ):
        if keep is None:
            assert method.own_number is not None
            keep = min(max(method.own_number(view), len(view.heads.never_empty)), len(view.heads))
        draw = next(choose(method, options.method.options, view, [len(view.heads) - keep]))  # of several the first
        _, choice = next(draw.choices)
    if choice.neurons is None and choice.removed != len(view.heads) - keep:
        kept = int(choice.mask.sum())
        raise InputError(f"--method {options.method.label} keeps {kept} units, whatever --keep says")
    return _Chosen(view.heads, choice, view.examples if passes.forward else 0)


def _prepare(task: Task, seed: int, cache: Cache, device: torch.device) -> None:
    """Train the model, unless it is in the cache, and tell every minute how far that is."""
    with (
        Status(f"training {task.model_name}, {task.data_name}, seed {seed}") as status,
        steps_reported_to(status.now),
    ):
        task.prepare(seed, cache, device)


@contextmanager
def _one_line(options: PruneOptions) -> Iterator[None]:
    """Report options that do not fit together, and a model that gives no exact numbers, as bad input in one line."""
    try:
        yield
    except OptionError as error:
        raise InputError(f"--method {options.method.label}: {error}") from error
    except (NonFiniteScore, FloatingPointError, SideEffect) as error:
        raise InputError(f"nothing was pruned: {error}") from error
    except NotExact as error:  # of a large model in half precision, perhaps
        advice = "" if options.task.dtype in ("", "float32") else ": use --dtype float32"
        raise InputError(f"nothing was saved: {error}{advice}") from error


@contextmanager
def _refusals(options: PruneOptions) -> Iterator[None]:
    """Report what a method refuses, such as a model that gives no maps of attention, as bad input in one line."""
    try:
        yield
    except (InputError, UnsupportedArchitecture):  # which say it in one line already
        raise
    except (ValueError, MethodError) as error:
        raise InputError(f"--method {options.method.label}: {error}") from error


def _trained(report: Mapping[str, float]) -> str:
    """The report of a method's training, in words; empty where it trained no weights."""
    said = [f"{name.replace('_', ' ')} {value:.4g}" for name, value in report.items()]
    return f"which trained on the training split ({', '.join(said)})" if report else ""


def _recovered(options: PruneOptions, choice: Choice) -> str:
    """What recovery did, in a sentence; empty where nothing was to be recovered."""
    report = choice.report
    if METHODS[options.method.name].training_free and (choice.removed or choice.neurons):
        return "The method changed the weights that are left, without training."
    if RECOVER.name not in options.method.options or not report:
        return ""
    how, changed = options.method.options[RECOVER.name], count(int(report["recovered"]), "attention module")
    if how == "bias":
        return f"Without training, {changed} got a new output bias (bias)."
    said = f"Output weights were recovered without training ({how}): {changed} got new ones"
    if how == "scale-damped":  # holds nothing out
        return f"{said}."
    kept = f"{report['unchanged']:.0f} kept the old ones, where none were better on calibration texts held out for that"
    return f"{said}, {kept}."
