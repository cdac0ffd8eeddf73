"""Two methods paired by task and seed, from the records of a folder, with what a reader must know of the pairing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.analysis.comparing.caveats import caveats
from bench.analysis.comparing.comparable import check_comparable
from bench.analysis.curves import removes
from bench.analysis.naming import count, seeds_in_words, short_names
from bench.analysis.quality import CHANCE_ERRORS, is_above_chance
from bench.analysis.run_results import FinishedCell, RunResults, SeedPairs, read_results
from bench.records.errors import InputError, unknown
from bench.records.schema import TaskKey


@dataclass(frozen=True)
class PairedMethods:
    """The cells of two methods on the tasks that both have, paired by seed."""

    tasks: dict[TaskKey, SeedPairs]
    names: dict[TaskKey, str]  # the shortest clear ones
    removed: tuple[str, str]  # the parts that each removes
    caveats: tuple[str, ...]  # that only one of the methods was trained or recovered, and so on: see ``caveats``
    remarks: tuple[str, ...]  # cells left out, and cells with other weights: a line each


def pair_methods(run: Path | RunResults, a: str, b: str, tasks: Sequence[str] = ()) -> PairedMethods:
    """Pair the methods labelled ``a`` and ``b`` on all tasks, or on those named by their adapter or data.

    run: the folder, or what was read from it. Tasks whose unpruned model is no better than chance, where there is
    nothing to lose, are left out and remarked on, unless they are named or there are no others: then that is a caveat.

    Raises InputError if there are no such records, or they were measured under different settings.
    """
    results = run if isinstance(run, RunResults) else read_results(run)
    for label in (a, b):
        if label not in results.labels():
            raise _no_result(results, label)
    if a == b:
        raise InputError(f"{a} is named twice: name two methods")
    low = {cell.record.task for cell in results.cells if not is_above_chance(cell.record.result)}
    chosen = _chosen_tasks(results, tasks, low)
    pairs = {task: pair for task in chosen if (pair := _pair(results, task, a, b))}
    if not pairs:
        raise InputError(f"{a} and {b} have no task and seed in common")
    both_of_each = [both for pair in pairs.values() for both in pair.values()]
    check_comparable(cell.record for both in both_of_each for cell in both)
    names = short_names(chosen)
    removed_a, removed_b = (removes(cell.record) for cell in both_of_each[0])
    return PairedMethods(
        tasks=pairs,
        names=names,
        removed=(removed_a, removed_b),
        caveats=caveats(results, pairs, names, low),
        remarks=(*([] if tasks else _left_out(low.difference(chosen))), *_remarks(results, names, a, b)),
    )


def largest_share(pair: SeedPairs) -> float:
    """Largest share of parameters that both methods remove in every seed."""
    return min(float(cell.parameters[-1]) for both in pair.values() for cell in both)


def _no_result(results: RunResults, label: str) -> InputError:
    failed = [record for record in results.failed if record.cell.label == label]
    if failed:
        return InputError(f"{label} has no result: {count(len(failed), 'cell')} failed: {failed[0].reason}")
    return unknown("method", label, results.labels())


def _chosen_tasks(results: RunResults, names: Sequence[str], low: Collection[TaskKey]) -> list[TaskKey]:
    """The tasks whose adapter or data is among ``names``; without names all but those in ``low``, if there are such."""
    tasks = results.tasks()
    for name in names:
        if not any(name in task[:2] for task in tasks):
            raise unknown("task", name, {part for task in tasks for part in task[:2]})
    if names:
        return [task for task in tasks if set(names) & set(task[:2])]
    return [task for task in tasks if task not in low] or tasks


def _left_out(tasks: Collection[TaskKey]) -> list[str]:
    return [
        f"left out: {', '.join(task)}, where the unpruned model is not better than chance by {CHANCE_ERRORS} standard "
        "errors (name it with --tasks to compare there too)"
        for task in sorted(tasks)
    ]


def _pair(results: RunResults, task: TaskKey, a: str, b: str) -> SeedPairs:
    of_a, of_b = results.of(task, a), results.of(task, b)
    return {seed: (cell, of_b[seed]) for seed, cell in of_a.items() if seed in of_b}


def _remarks(results: RunResults, names: dict[TaskKey, str], a: str, b: str) -> list[str]:
    remarks = []
    for task, name in names.items():
        of_a, of_b = results.of(task, a), results.of(task, b)
        for label, own, other in ((a, of_a, of_b), (b, of_b, of_a)):
            if missing := other.keys() - own.keys():
                remarks.append(f"left out on {name}: {seeds_in_words(missing)}, for which {label} has no result")
        both = _pair(results, task, a, b)
        if differ := [s for s, (one, other) in both.items() if _weights(one) != _weights(other)]:
            remarks.append(f"on {name} the two methods pruned models of different weights in {seeds_in_words(differ)}")
        remarks += [
            f"failed: {record.cell.label} on {name}, seed {record.cell.seed}: {record.reason}"
            for record in results.failed
            if record.task == task and record.cell.label in (a, b)
        ]
    if results.other_protocol:
        remarks.append(f"left out: {count(results.other_protocol, 'record')} made under another protocol")
    return remarks


def _weights(cell: FinishedCell) -> str | None:
    return cell.record.result.training.weights
