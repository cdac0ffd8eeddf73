"""The cells of two folders, paired: which were run in both, in which environments, and which only in one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.analysis.comparing.comparable import alike_by_digest, settings
from bench.analysis.naming import count, seeds_in_words, short_names
from bench.records.errors import InputError, unknown
from bench.records.schema import FinishedRecord, Record, TaskKey
from bench.records.storage.current import read_current

Name = tuple[TaskKey, str, int]  # task, label, seed
OWN_PACKAGE = "headbench"  # its commit says more than its version


@dataclass(frozen=True, eq=False)
class Run:
    """A finished or failed cell: its record, and the file that it is in."""

    record: Record
    path: Path

    @property
    def finished(self) -> FinishedRecord:
        """The record of a finished cell. Raises TypeError for a failed one."""
        if not isinstance(self.record, FinishedRecord):
            raise TypeError(f"{self.path}: the cell failed")
        return self.record

    @property
    def done(self) -> bool:
        """Whether the cell finished."""
        return isinstance(self.record, FinishedRecord)


@dataclass(frozen=True, eq=False)
class Twin:
    """One cell in the baseline, and as it is now."""

    task: TaskKey
    label: str
    seed: int
    before: Run
    after: Run
    task_name: str  # the shortest clear one among the tasks of both folders

    @property
    def where(self) -> str:
        """The task and seed, for messages."""
        return f"{self.task_name}, seed {self.seed}"

    @property
    def environment_changes(self) -> dict[str, tuple[str, str]]:
        """What differs in machine and versions, before and after. If nothing does, results must be equal.

        Packages that only one of the records names are ignored.
        """
        return dict(sorted(_unlike(_environment(self.before.record), _environment(self.after.record)).items()))


@dataclass(frozen=True)
class Twins:
    """The cells of two folders."""

    pairs: tuple[Twin, ...]
    new: tuple[str, ...]  # methods that the baseline lacks
    absent: tuple[str, ...]  # a remark on each method, task or seed that only one of the folders has
    commits: tuple[tuple[str, ...], tuple[str, ...]]  # of the baseline and now, with a + if the tree was dirty

    def labels(self) -> list[str]:
        """Labels of the methods in both, sorted."""
        return sorted({twin.label for twin in self.pairs})

    def of(self, label: str) -> list[Twin]:
        """The cells of a method, sorted by task and seed."""
        return [twin for twin in self.pairs if twin.label == label]


def twins(baseline: Path, folder: Path, methods: Sequence[str] = ()) -> Twins:
    """Pair the records of ``folder`` with those of ``baseline``, for all methods or those with the given labels.

    Raises InputError if one of the folders has no records of the current protocol, ``folder`` has none of a given
    method, they share no cell, or a shared cell was measured under different settings.
    """
    (before, old), (after, recent) = _runs(baseline), _runs(folder)
    known = {label for _, label, _ in [*before, *after]}
    for label in methods:
        if label not in known:
            raise unknown("method", label, known)
        if not any(name[1] == label for name in after):
            raise InputError(f"{folder} has no cell of {label}, which is to be compared: run it there")
    if methods:
        before, after = ({name: run for name, run in runs.items() if name[1] in methods} for runs in (before, after))
    shared = sorted(before.keys() & after.keys())
    new = sorted({label for _, label, _ in after} - {label for _, label, _ in before})
    if not shared and not new:
        raise InputError(f"{baseline} and {folder} have no method, task and seed in common")
    names = short_names(sorted({task for task, _, _ in [*before, *after]}))
    pairs = tuple(Twin(*name, before[name], after[name], names[name[0]]) for name in shared)
    for twin in pairs:
        _check_comparable(twin)
    return Twins(
        pairs,
        tuple(new),
        (
            *_only(before, after, "not run here", names),
            *_only([name for name in after if name[1] not in new], before, "not in the baseline", names),
            *_other_protocol(baseline, old),
            *_other_protocol(folder, recent),
        ),
        (_commits(before), _commits(after)),
    )


def _runs(folder: Path) -> tuple[dict[Name, Run], int]:
    """The cells of a folder, and the number of records of another protocol."""
    records, others = read_current(folder)
    runs = {}
    for path, record in records.items():
        cell = record.cell
        runs[record.task, cell.label, cell.seed] = Run(record, path)
    return runs, others


def _environment(record: Record) -> dict[str, str]:
    origin = record.provenance
    versions = {name: version for name, version in origin.packages.items() if name != OWN_PACKAGE}
    machine = {"processor": origin.processor, "system": origin.system, "device": record.cell.device}
    return machine | versions | {"python": origin.python}


def _check_comparable(twin: Twin) -> None:
    """Raise InputError if a cell was measured under other settings than in the baseline."""
    before, after = ({"training": "none"} | settings(run.record) for run in (twin.before, twin.after))
    if twin.before.done and twin.after.done and twin.before.finished.result.units != twin.after.finished.result.units:
        del before["units removed"]  # other units are a change of the result, reported as such
    for name in alike_by_digest([twin.before.record, twin.after.record]):
        del before[name]
    for name, (old, new) in _unlike(before, after).items():
        raise InputError(
            f"{twin.label} on {twin.where} was measured under other settings than in the baseline, and cannot be "
            f"compared: {name} {new}, not {old}"
        )


def _unlike(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {name: (before[name], after[name]) for name in before if name in after and before[name] != after[name]}


def _only(one: Iterable[Name], other: Iterable[Name], said: str, names: Mapping[TaskKey, str]) -> list[str]:
    """A remark on what only ``one`` has: whole tasks, whole methods, and single seeds of a method on a task."""
    tasks = {task for task, _, _ in one} - {task for task, _, _ in other}
    labels = {label for _, label, _ in one} - {label for _, label, _ in other}
    cells: dict[str, set[int]] = defaultdict(set)
    for task, label, seed in set(one) - set(other):
        if task not in tasks and label not in labels:
            cells[f"{label} on {names[task]}"].add(seed)
    seeds: dict[str, list[str]] = defaultdict(list)
    for name, missing in sorted(cells.items()):
        seeds[seeds_in_words(missing)].append(name)
    whole = [*(f"task {', '.join(task)}" for task in sorted(tasks)), *sorted(labels)]
    return ([f"{said}: {'; '.join(whole)}"] if whole else []) + [
        f"{said}: {missing} of {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        for missing, names in seeds.items()
    ]


def _other_protocol(folder: Path, number: int) -> list[str]:
    return [f"left out of {folder}: {count(number, 'record')} made under another protocol"] if number else []


def _commits(runs: Mapping[Name, Run]) -> tuple[str, ...]:
    origins = [run.record.provenance for run in runs.values()]
    return tuple(sorted({origin.commit[:12] + "+" * bool(origin.dirty) for origin in origins}))
