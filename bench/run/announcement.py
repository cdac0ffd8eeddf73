"""What a run says before it begins: its cells, what there is of them, and what it needs and takes."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import torch

from bench.analysis.naming import count
from bench.measure.status import duration
from bench.records.storage.packed import is_packed
from bench.records.storage.store import Store
from bench.run.engines import Engine
from bench.run.estimates.disk import disk_use
from bench.run.estimates.expectation import expectations
from bench.run.estimates.shapes import flops_per_second
from bench.run.estimates.time_left import Estimator
from bench.run.jobs import CellJob, TimingJob, TrainJob
from bench.run.options import RunOptions
from bench.suites.cells import Cell, open_task
from bench.suites.suite import Suite
from tasks.models.cache import Cache

MOST = 60  # cells that are named one by one
TOLD = {"untimed": "done, but not timed"}  # states in words
MEASURED = ("done", "untimed")  # states of cells with a record of what they took


def print_plan(
    suite: Suite,
    needs: Sequence[str],
    states: Mapping[Cell, str],
    jobs: Sequence[TrainJob | CellJob],
    timing: Sequence[TimingJob],
    estimator: Estimator,
    engine: Engine,
    options: RunOptions,
    root: Path,
) -> None:
    """Print what a run will do, from how many cells are in which of the ``states`` to the time of the ``jobs``.

    A dry run also names the cells, and estimates what methods take on models that no record knows. Raises InputError
    where what the run writes does not fit on the disk.
    """
    counts = Counter(states.values())
    tasks = {(cell.task.task, cell.data, cell.model): cell.task for cell in states}
    print(
        f"suite {suite.name}: {count(len(states), 'cell')} = {count(len(tasks), 'task')} x "
        f"{count(len(suite.methods), 'method')} x {count(len(suite.seeds), 'seed')}"
    )
    for (task, data, model), spec in sorted(tasks.items()):
        opened = open_task(spec)
        facts = [f"  {task}: {data}, {model}", *((own.sizes, *own.remarks) if (own := opened.own_data) else ())]
        held_out = [f"{opened.held_out} training examples held out for calibration"] if opened.held_out else []
        print("; ".join([*facts, *held_out]))
    for line in needs:
        print(f"  needs {line}")
    print("  " + ", ".join(f"{number} {TOLD.get(state, state)}" for state, number in sorted(counts.items())))
    seconds = estimator.left(jobs, engine.slots, timing, machines=engine.machines)
    about = "" if seconds is None else f"about {duration(seconds)} "
    if timing and not jobs:
        print(f"  to do: the smaller models of {count(len(timing), 'cell')} are timed, {about}on {options.device}")
    if jobs:
        training = sum(isinstance(job, TrainJob) for job in jobs)
        after = f" after training {count(training, 'model')}" if training else ""
        cells = count(len(jobs) - training, "cell")
        print(f"  to do: {cells}{after}, {about}on {engine} ({options.device})")
    if disk := disk_use(jobs, root, options.out, "TMPDIR" if options.no_cache else "HEADBENCH_CACHE"):
        print(f"  disk: {disk}")
    if not options.no_cache:
        print(f"  trained models: {root} ({Cache(root).size() / 2**20:.1f} MB)")
    if counts["stale"]:
        print(f"  {count(counts['stale'], 'record')} made under other settings, to be replaced")
    if counts["failed"] and not options.retry_failed:
        print(f"  {count(counts['failed'], 'cell')} failed before; --retry-failed runs what failed again")
    if (jobs or timing) and is_packed(Store(options.out).folder):
        print(f"  {options.out} is packed: `headbench unpack {options.out}` before the run, or another folder by --out")
    if options.dry_run:
        lines = [*estimate_lines(jobs, states, estimator, engine, options), *state_lines(states)]
        print(*(f"  {line}" for line in lines), sep="\n")
    sys.stdout.flush()


def estimate_lines(
    jobs: Sequence[TrainJob | CellJob],
    states: Mapping[Cell, str],
    estimator: Estimator,
    engine: Engine,
    options: RunOptions,
) -> Iterator[str]:
    """Lines on what the ``jobs`` of methods that have no record on a given model yet will need and take there.

    ``states`` tells which methods have one. The last line is the time of all jobs, if the ``estimator`` does not know
    it. No time is given where jobs run on a GPU that this machine does not have.
    """
    device, threads = options.device, options.cluster.cpus if options.cluster else 1
    at_hand = device != "cuda" or torch.cuda.is_available()  # else it is that of a cluster's nodes
    speed = cache(partial(flops_per_second, device, threads)) if at_hand else (lambda dtype: None)
    known = {_method_on_model(cell) for cell, state in states.items() if state in MEASURED}
    cells = [job.cell for job in jobs if isinstance(job, CellJob) and _method_on_model(job.cell) not in known]
    models = Counter(job.cell.task for job in jobs if isinstance(job, TrainJob))
    found = list(expectations(cells, models, speed))
    if not found:
        return
    known_speed = " and the speed at which this machine multiplies matrices" if at_hand else ""
    unknown_speed = "" if at_hand else ", and without hours, as the GPU is not on this machine"
    yield f"estimates where no record tells, from shapes{known_speed}, without timing{unknown_speed}:"
    for each in found:
        yield from (f"  {line}" for line in each.lines())
    unknown = {job.cell.task for job in jobs if estimator.seconds(job) is None}
    if at_hand and unknown and unknown <= {each.task.spec for each in found}:
        estimates = [each for each in found if each.task.spec in unknown]
        total = sum(each.seconds for each in estimates) + sum(estimator.seconds(job) or 0.0 for job in jobs)
        seconds = max(total / engine.slots, *(each.seconds_in_a_row for each in estimates))
        yield f"  in all about {duration(seconds)} on {engine} ({device})"


def _method_on_model(cell: Cell) -> tuple[str, str, str, str]:
    return cell.task.task, cell.data, cell.model, cell.method.label


def state_lines(states: Mapping[Cell, str]) -> Iterator[str]:
    """Lines that say the state of every cell; of many, of each task and model together."""
    if len(states) <= MOST:
        yield from (f"{state:8} {cell.name}" for cell, state in states.items())
        return
    models: dict[str, list[Cell]] = defaultdict(list)
    for cell in states:
        models[cell.name.partition("/")[0]].append(cell)
    for model, cells in models.items():
        for state in dict.fromkeys(states[cell] for cell in cells):
            these = [cell for cell in cells if states[cell] == state]
            yield f"{state:8} {len(these)} of {len(cells)} {model}: {_methods(these, cells)}"


def _methods(some: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """The methods of ``some`` of the ``cells`` of a model, those together that have equally many of their seeds."""
    found, among = (Counter(cell.method.label for cell in each) for each in (some, cells))
    if found == among:
        return f"all {count(len(found), 'method')}"
    alike: dict[tuple[int, int], list[str]] = defaultdict(list)
    for label, seeds in found.items():
        alike[seeds, among[label]].append(label)
    return "; ".join(f"{', '.join(labels)} ({seeds} of {of} seeds)" for (seeds, of), labels in alike.items())
