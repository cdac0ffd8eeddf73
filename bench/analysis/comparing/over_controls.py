"""How much more methods keep than their controls, tested within each kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bench.analysis.comparing.comparable import differing, settings
from bench.analysis.comparing.controls import controls_of
from bench.analysis.curves import area_to, curve
from bench.analysis.kinds import kind
from bench.analysis.quality import POINTS
from bench.analysis.stats.pairs import Difference, adjusted, difference
from bench.records.schema import FinishedRecord, TaskKey

Samples = list[tuple[np.ndarray, np.ndarray]]  # for each task the points of a method and of its control, (seeds,) each


@dataclass(frozen=True, eq=False)
class ComparedCell:
    """A record, with what each comparison of it asks for again."""

    record: FinishedRecord

    @cached_property
    def points(self) -> float:
        """Quality averaged over all shares removed."""
        return POINTS * area_to(1.0, *curve(self.record))

    @cached_property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """What it was measured under."""
        return tuple(settings(self.record).items())


Seeds = Mapping[int, ComparedCell]


@dataclass(frozen=True)
class Over:
    """A method against one of its controls, as ``compare`` compares them."""

    control: str
    difference: Difference  # points, of the mean over tasks
    p: float | None  # adjusted for ``tests``; None with too few seeds
    tests: int  # one of each method of the kind that has such a control


def over_controls(records: Iterable[FinishedRecord], alpha: float = 0.05) -> dict[str, dict[str, Over]]:
    """For each method and each of its controls (``controls_of``) the difference on all tasks of ``records``.

    As in ``compare``, quality is averaged over the shares removed, and paired by seed. p-values are adjusted by Holm
    over the methods of a kind. Methods and controls that lack a task are left out, and so is a control that shares no
    seed with the method on some task, or was measured there under other settings.
    """
    by_label: dict[str, dict[TaskKey, dict[int, ComparedCell]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        by_label[record.cell.label][record.task][record.cell.seed] = ComparedCell(record)
    tasks = sorted({task for of_task in by_label.values() for task in of_task})
    some = {
        label: next(iter(of_task[tasks[0]].values())).record
        for label, of_task in by_label.items()
        if len(of_task) == len(tasks)
    }
    families: dict[tuple[str, str], list[tuple[str, str, Samples]]] = defaultdict(list)
    for label in sorted(some):
        for role, control in controls_of(some, label).items():
            pairs = [_paired(by_label[label][task], by_label[control][task]) for task in tasks]
            samples = [pair for pair in pairs if pair is not None]
            if len(samples) == len(tasks):
                families[kind(some[label].cell), role].append((label, control, samples))
    found: dict[str, dict[str, Over]] = defaultdict(dict)
    for (_, role), members in families.items():
        differences = [
            difference([own for own, _ in samples], [control for _, control in samples], alpha)
            for *_, samples in members
        ]
        for (label, control, _), each, p in zip(members, differences, adjusted(differences), strict=True):
            found[label][role] = Over(control, each, p, len(members))
    return dict(found)


def _paired(own: Seeds, control: Seeds) -> tuple[np.ndarray, np.ndarray] | None:
    """Points of the two in the seeds of a task that both have; None without any, or where they cannot be compared."""
    seeds = sorted(own.keys() & control.keys())
    sides = [[cells[seed] for seed in seeds] for cells in (own, control)]
    unlike = {cell.settings: cell.record for side in sides for cell in side}
    if not seeds or differing(unlike.values()):
        return None
    return np.array([cell.points for cell in sides[0]]), np.array([cell.points for cell in sides[1]])
