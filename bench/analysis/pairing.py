"""Two methods paired by task and seed, from the records of a folder: what was measured alike, and what was not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.analysis.stats.samples import Sample, Samples, check_equal, load
from bench.records.errors import InputError, unknown
from bench.records.schema import TaskKey

Pair = dict[int, tuple[Sample, Sample]]  # by seed, ascending


@dataclass(frozen=True)
class Paired:
    """The samples of two methods on the tasks that both have, and what to know of them."""

    tasks: dict[TaskKey, Pair]
    names: dict[TaskKey, str]  # shortest that is clear
    unlike: str  # how the methods differ in the parts that they remove; empty where they do not
    caveats: tuple[str, ...]  # that one of the methods was trained and the other not, or that one removes nothing
    remarks: tuple[str, ...]  # a line for each cell that is left out, and why


def paired(folder: Path, a: str, b: str, tasks: Sequence[str] = ()) -> Paired:
    """The methods ``a`` and ``b``, by their labels, on all tasks or those named, by their adapter or data.

    Raises InputError where there are no such records, or they were not measured on the same examples and levels.
    """
    samples = load(folder)
    for label in (a, b):
        if label not in samples.labels():
            raise _no_result(samples, label)
    if a == b:
        raise InputError(f"{a} is named twice: name two methods")
    chosen = _chosen(samples, tasks)
    pairs = {task: _pair(samples, task, a, b) for task in chosen}
    pairs = {task: pair for task, pair in pairs.items() if pair}
    if not pairs:
        raise InputError(f"{a} and {b} have no task and seed in common")
    check_equal(sample for pair in pairs.values() for both in pair.values() for sample in both)
    names = {task: _name(task, chosen) for task in chosen}
    some_a, some_b = next(iter(next(iter(pairs.values())).values()))
    unlike = f"{a} removes {some_a.removes}, {b} {some_b.removes}" if some_a.removes != some_b.removes else ""
    sides = [[both[side] for pair in pairs.values() for both in pair.values()] for side in (0, 1)]
    caveats = (*_trained(*sides), *(caveat for side in sides for caveat in _removes_nothing(side)))
    return Paired(pairs, names, unlike, caveats, tuple(_remarks(samples, names, a, b)))


def largest_share(pair: Pair) -> float:
    """Largest share of parameters that both methods remove in every seed."""
    return min(float(sample.parameters[-1]) for both in pair.values() for sample in both)


def _no_result(samples: Samples, label: str) -> InputError:
    failed = [failure for failure in samples.failures if failure.label == label]
    if failed:
        return InputError(f"{label} has no result: it failed in all of its {len(failed)} cells: {failed[0].reason}")
    return unknown("method", label, samples.labels())


def _chosen(samples: Samples, names: Sequence[str]) -> list[TaskKey]:
    """The tasks that ``names``, of adapters or data, stand for; all without a name."""
    tasks = samples.tasks()
    for name in names:
        if not any(name in task[:2] for task in tasks):
            raise unknown("task", name, {part for task in tasks for part in task[:2]})
    return [task for task in tasks if not names or set(names) & set(task[:2])]


def _pair(samples: Samples, task: TaskKey, a: str, b: str) -> Pair:
    of_a, of_b = samples.of(task, a), samples.of(task, b)
    return {seed: (of_a[seed], of_b[seed]) for seed in sorted(of_a.keys() & of_b.keys())}


def _remarks(samples: Samples, names: dict[TaskKey, str], a: str, b: str) -> list[str]:
    """What is left out, and models that two methods do not share."""
    remarks = []
    for task, name in names.items():
        of_a, of_b = samples.of(task, a), samples.of(task, b)
        for label, own, other in ((a, of_a, of_b), (b, of_b, of_a)):
            if missing := sorted(other.keys() - own.keys()):
                remarks.append(f"left out on {name}: {in_seeds(missing)}, for which {label} has no result")
        if differ := [seed for seed in sorted(of_a.keys() & of_b.keys()) if of_a[seed].weights != of_b[seed].weights]:
            remarks.append(f"on {name} the two pruned models of different weights in {in_seeds(differ)}")
        remarks += [
            f"failed: {failure.label} on {name}, seed {failure.seed}: {failure.reason}"
            for failure in samples.failures
            if failure.task == task and failure.label in (a, b)
        ]
    if samples.other_protocol:
        remarks.append(f"left out: {samples.other_protocol} records made under another protocol")
    return remarks


def _trained(a: Sequence[Sample], b: Sequence[Sample]) -> list[str]:
    """That one of the methods, paired cell by cell, was trained where the other was not, and for which shares."""
    told = []
    for own, others in ((a, b), (b, a)):
        alone = [one for one, other in zip(own, others, strict=True) if one.trained and not other.trained]
        if alone:
            shares = [100 * sample.trained for sample in alone]
            share = f"{min(shares):.3g}" + (f" to {max(shares):.3g}" if max(shares) > min(shares) else "")
            told.append(
                f"{alone[0].label} was trained at each level, for {share} % of the task's own training, and "
                f"{others[0].label} was not: the difference is that of the training too"
            )
    return told


def _removes_nothing(own: Sequence[Sample]) -> list[str]:
    if any(sample.parameters.any() for sample in own):
        return []
    return [f"{own[0].label} removes nothing: its accuracy is that of the unpruned model at every level"]


def _name(task: TaskKey, tasks: list[TaskKey]) -> str:
    """The adapter's name, or that with data and model where another task has the same."""
    alone = [other[0] for other in tasks].count(task[0]) == 1
    return task[0] if alone else f"{task[0]} ({task[1]}, {task[2]})"


def in_seeds(seeds: list[int]) -> str:
    """``seed 1`` or ``seeds 1, 2``."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
