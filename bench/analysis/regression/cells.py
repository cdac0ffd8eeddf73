"""The cells of two folders paired: which were run in both, where and with what, and which only in one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.analysis.pairing import in_seeds
from bench.analysis.settings import flags
from bench.records.errors import InputError, unknown
from bench.records.schema import FinishedRecord, Record, TaskKey
from bench.records.store import read_current

Name = tuple[TaskKey, str, int]  # task, label, seed
OWN_VERSION = "headbench"  # its commit says more


@dataclass(frozen=True, eq=False)
class Run:
    """A finished or failed cell: its record, and where that lies."""

    record: Record
    path: Path

    @property
    def finished(self) -> FinishedRecord:
        """Its record, which is that of a finished cell. Raises TypeError for that of a failed one."""
        if not isinstance(self.record, FinishedRecord):
            raise TypeError(f"{self.path}: the record of a failed cell")
        return self.record

    @property
    def done(self) -> bool:
        return isinstance(self.record, FinishedRecord)


@dataclass(frozen=True, eq=False)
class Twin:
    """One cell in the baseline and now."""

    task: TaskKey
    label: str
    seed: int
    before: Run
    after: Run

    @property
    def where(self) -> str:
        """Shortest name of its task, with the seed."""
        return f"{self.task[0]}, seed {self.seed}"

    @property
    def moved(self) -> dict[str, tuple[str, str]]:
        """What differs of the machine and the versions, as it was and is: equal answers are due where it is empty.

        Packages that only one of the records names count for nothing.
        """
        return dict(sorted(_unlike(_place(self.before.record), _place(self.after.record)).items()))


@dataclass(frozen=True)
class Twins:
    """All cells of two folders."""

    pairs: tuple[Twin, ...]
    new: tuple[str, ...]  # methods that the baseline lacks
    absent: tuple[str, ...]  # a remark for each method, task or seed that only one of the folders has
    commits: tuple[tuple[str, ...], tuple[str, ...]]  # of the baseline and of now, with a + where the tree was dirty

    def labels(self) -> list[str]:
        """Methods of both, sorted."""
        return sorted({twin.label for twin in self.pairs})

    def of(self, label: str) -> list[Twin]:
        """The cells of a method, by task and seed."""
        return [twin for twin in self.pairs if twin.label == label]


def twins(baseline: Path, folder: Path, methods: Sequence[str] = ()) -> Twins:
    """Pair the records of ``folder`` with those of ``baseline``: of all methods, or those whose labels are given.

    Raises InputError where one of them has no records of the current protocol, a method is in neither, they share no
    cell, or cells that they share were not asked the same.
    """
    (before, old), (after, recent) = _runs(baseline), _runs(folder)
    known = {label for _, label, _ in [*before, *after]}
    for label in methods:
        if label not in known:
            raise unknown("method", label, known)
    if methods:
        before, after = ({name: run for name, run in runs.items() if name[1] in methods} for runs in (before, after))
    shared = sorted(before.keys() & after.keys())
    new = sorted({label for _, label, _ in after} - {label for _, label, _ in before})
    if not shared and not new:
        raise InputError(f"{baseline} and {folder} have no method, task and seed in common")
    pairs = tuple(Twin(*name, before[name], after[name]) for name in shared)
    for twin in pairs:
        _check_alike(twin)
    return Twins(
        pairs,
        tuple(new),
        (
            *_only(before, after, "not run here"),
            *_only([name for name in after if name[1] not in new], before, "not in the baseline"),
            *_other_protocol(baseline, old),
            *_other_protocol(folder, recent),
        ),
        (_commits(before), _commits(after)),
    )


def _runs(folder: Path) -> tuple[dict[Name, Run], int]:
    """Its cells, and how many records of another protocol there are."""
    records, others = read_current(folder)
    runs = {}
    for path, record in records.items():
        cell = record.cell
        runs[record.task, cell.label, cell.seed] = Run(record, path)
    return runs, others


def _place(record: Record) -> dict[str, str]:
    origin = record.provenance
    versions = {name: version for name, version in origin.packages.items() if name != OWN_VERSION}
    machine = {"processor": origin.processor, "system": origin.system, "device": record.cell.device}
    return machine | versions | {"python": origin.python}


def _check_alike(twin: Twin) -> None:
    """Raises InputError where a cell was asked something else than in the baseline."""
    for name, (before, after) in _unlike(_asked(twin.before.record), _asked(twin.after.record)).items():
        raise InputError(
            f"{twin.label} on {twin.where} was measured in another way than in the baseline, and cannot be compared: "
            f"{name} {after}, not {before}"
        )


def _asked(record: Record) -> dict[str, Any]:
    cell = record.cell
    asked: dict[str, Any] = {name: value or "none" for name, value in flags(record).items()}
    asked |= {"data or model, by digest,": cell.origin} if cell.origin else {}
    asked |= {"calibration texts": cell.calibration, "share of training": cell.trained}
    if isinstance(record, FinishedRecord):
        result = record.result
        asked |= {"sub-tasks": result.parts, "chance": result.chance}
        asked[f"levels of {result.units} units"] = result.removed  # other units are a change of their own
    return asked


def _unlike(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (before[name], after[name]) for name in before if name in after and before[name] != after[name]}


def _only(one: Iterable[Name], other: Iterable[Name], said: str) -> list[str]:
    """What only ``one`` has: whole tasks, whole methods, and single seeds of a method on a task."""
    tasks = {task for task, _, _ in one} - {task for task, _, _ in other}
    labels = {label for _, label, _ in one} - {label for _, label, _ in other}
    cells: dict[str, set[int]] = defaultdict(set)
    for task, label, seed in set(one) - set(other):
        if task not in tasks and label not in labels:
            cells[f"{label} on {task[0]}"].add(seed)
    seeds: dict[str, list[str]] = defaultdict(list)
    for name, missing in sorted(cells.items()):
        seeds[in_seeds(sorted(missing))].append(name)
    whole = [*(f"task {', '.join(task)}" for task in sorted(tasks)), *sorted(labels)]
    return ([f"{said}: {'; '.join(whole)}"] if whole else []) + [
        f"{said}: {missing} of {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        for missing, names in seeds.items()
    ]


def _other_protocol(folder: Path, count: int) -> list[str]:
    return [f"left out of {folder}: {count} records made under another protocol"] if count else []


def _commits(runs: Mapping[Name, Run]) -> tuple[str, ...]:
    origins = [run.record.provenance for run in runs.values()]
    return tuple(sorted({origin.commit[:12] + "+" * bool(origin.dirty) for origin in origins}))
