"""Two methods paired by task and seed, from the records of a folder, with what a reader must know of the pairing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.analysis.comparing.comparable import check_comparable
from bench.analysis.comparing.controls import chooses_at_random, controls_of, same_but_for_recovery
from bench.analysis.curves import removes
from bench.analysis.kinds import RECOVERED, SCORE, kind, share_trained
from bench.analysis.naming import count, of_one_model, seeds_in_words, short_names
from bench.analysis.quality import CHANCE_ERRORS, is_above_chance
from bench.analysis.run_results import FinishedCell, RunResults, read_results
from bench.records.errors import InputError, unknown
from bench.records.schema import TaskKey

SeedPairs = dict[int, tuple[FinishedCell, FinishedCell]]  # by seed, ascending


@dataclass(frozen=True)
class PairedMethods:
    """The cells of two methods on the tasks that both have, paired by seed."""

    tasks: dict[TaskKey, SeedPairs]
    names: dict[TaskKey, str]  # the shortest clear ones
    removed: tuple[str, str]  # the parts that each removes
    caveats: tuple[str, ...]  # that only one of the methods was trained or recovered, and so on
    remarks: tuple[str, ...]  # cells left out, and cells with other weights: a line each


def pair_methods(run: Path | RunResults, a: str, b: str, tasks: Sequence[str] = ()) -> PairedMethods:
    """Pair the methods labelled ``a`` and ``b`` on all tasks, or on those named by their adapter or data.

    run: the folder, or what was read from it. Tasks whose unpruned model is no better than chance, where there is
    nothing to lose, are left out and remarked on, unless they are named or there are no others.

    Raises InputError if there are no such records, or they were measured under different settings.
    """
    results = run if isinstance(run, RunResults) else read_results(run)
    for label in (a, b):
        if label not in results.labels():
            raise _no_result(results, label)
    if a == b:
        raise InputError(f"{a} is named twice: name two methods")
    chosen, at_chance = _chosen_tasks(results, tasks)
    pairs = {task: pair for task in chosen if (pair := _pair(results, task, a, b))}
    if not pairs:
        raise InputError(f"{a} and {b} have no task and seed in common")
    sides = [[both[side] for pair in pairs.values() for both in pair.values()] for side in (0, 1)]
    check_comparable(cell.record for side in sides for cell in side)
    names = short_names(chosen)
    removed_a, removed_b = (removes(side[0].record) for side in sides)
    return PairedMethods(
        tasks=pairs,
        names=names,
        removed=(removed_a, removed_b),
        caveats=(
            *_controls(results, a, b),
            *_trained(*sides),
            *_recovered(*sides),
            *_of_one_model(pairs, names),
            *(caveat for side in sides for caveat in _removes_nothing(side)),
        ),
        remarks=(*at_chance, *_remarks(results, names, a, b)),
    )


def largest_share(pair: SeedPairs) -> float:
    """Largest share of parameters that both methods remove in every seed."""
    return min(float(cell.parameters[-1]) for both in pair.values() for cell in both)


def _no_result(results: RunResults, label: str) -> InputError:
    failed = [record for record in results.failed if record.cell.label == label]
    if failed:
        return InputError(f"{label} has no result: {count(len(failed), 'cell')} failed: {failed[0].reason}")
    return unknown("method", label, results.labels())


def _chosen_tasks(results: RunResults, names: Sequence[str]) -> tuple[list[TaskKey], list[str]]:
    """The tasks whose adapter or data is among ``names``, and a remark on each that is left out.

    Without names, all tasks that can show a difference: see ``pair_methods``.
    """
    tasks = results.tasks()
    for name in names:
        if not any(name in task[:2] for task in tasks):
            raise unknown("task", name, {part for task in tasks for part in task[:2]})
    if names:
        return [task for task in tasks if set(names) & set(task[:2])], []
    low = {cell.record.task for cell in results.cells if not is_above_chance(cell.record.result)}
    above = [task for task in tasks if task not in low]
    if not above:
        return tasks, []
    return above, [
        f"left out: {', '.join(task)}, where the unpruned model is not better than chance by {CHANCE_ERRORS} standard "
        "errors (name it with --tasks to compare there too)"
        for task in sorted(low)
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


def _trained(a: Sequence[FinishedCell], b: Sequence[FinishedCell]) -> list[str]:
    """That one of the methods was trained where the other was not, and for which shares of the task's training."""
    caveats = []
    for own, others in ((a, b), (b, a)):
        shares = [
            100 * (share_trained(one.record) or 0.0)
            for one, other in zip(own, others, strict=True)
            if one.record.cell.trained and not other.record.cell.trained
        ]
        if shares:
            share = f"{min(shares):.3g}" + (f" to {max(shares):.3g}" if max(shares) > min(shares) else "")
            caveats.append(
                f"{own[0].record.cell.label} was trained at each level, for {share} % of the task's own training, and "
                f"{others[0].record.cell.label} was not: part of the difference is due to training"
            )
    return caveats


def _recovered(a: Sequence[FinishedCell], b: Sequence[FinishedCell]) -> list[str]:
    """That weights of one of two methods were recovered and those of the other left alone, unless that is asked."""
    return [
        f"weights of {one.label} were recovered without training, and those of {other.label} were not: part of the "
        "difference is due to that"
        for one, other in ((x[0].record.cell, y[0].record.cell) for x, y in ((a, b), (b, a)))
        if (kind(one), kind(other)) == (RECOVERED, SCORE) and not same_but_for_recovery(one, other)
    ]


def _of_one_model(pairs: Mapping[TaskKey, SeedPairs], names: Mapping[TaskKey, str]) -> list[str]:
    """That the model of some tasks is taken as it is, so that their seeds say nothing of other models."""
    drawn = {
        names[task]: what
        for task, pair in pairs.items()
        if (what := of_one_model(cell.record for both in pair.values() for cell in both))
    }
    where = f"on {', '.join(drawn)} seeds are" if len(pairs) > 1 else "seeds are"
    return [f"{where} {min(drawn.values())}: the interval says nothing of other models"] if drawn else []


def _controls(results: RunResults, a: str, b: str) -> list[str]:
    """For a method that is compared with another's random control: which is its own."""
    records = {cell.record.cell.label: cell.record for cell in results.cells}
    return [
        f"the random control of {label} is {own}"
        for label, other in ((a, b), (b, a))
        if chooses_at_random(records[other].cell) and (own := controls_of(records, label).get("random", other)) != other
    ]


def _removes_nothing(cells: Sequence[FinishedCell]) -> list[str]:
    if any(cell.parameters.any() for cell in cells):
        return []
    return [f"{cells[0].record.cell.label} removes nothing: its quality is that of the unpruned model at every level"]
