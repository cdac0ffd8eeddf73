"""How much quality a method loses against the baseline, and whether that is more than chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.analysis.curves import area, curve
from bench.analysis.naming import count
from bench.analysis.quality import POINTS, is_of_corpus
from bench.analysis.regression.cells import Run, Twin
from bench.analysis.stats.documents import document_bootstrap
from bench.analysis.stats.pairs import difference
from bench.analysis.stats.signflip import samples_needed
from bench.records.arrays import read_outcomes
from bench.records.schema import TaskKey


@dataclass(frozen=True)
class Effect:
    """Mean quality over levels now minus that of the baseline, in points, and an interval for it."""

    mean: float
    interval: tuple[float, float] | None  # None with too few cells, and no documents that are right or wrong
    over: str  # what the interval is over: cells, or documents

    def unknown(self, margin: float) -> bool:
        """Whether the loss exceeds ``margin``, in points, and may be chance, as far as the cells say."""
        return self.mean < -margin and not self.worse(margin)

    def worse(self, margin: float) -> bool:
        """Whether the loss exceeds ``margin``, in points, and its interval excludes 0."""
        return self.mean < -margin and self.interval is not None and self.interval[1] < 0


def effect(pairs: Sequence[Twin], alpha: float) -> Effect:
    """The effect on the mean quality of ``pairs``, finished cells of one method, at least one.

    Model, calibration set and documents are the same on both sides, so each cell gives one difference, which is as
    likely to be d as -d if the change only added noise: the interval is that of the sign-flip test over cells, for the
    mean over tasks of the mean over seeds. With too few cells for it, the interval is a bootstrap over the documents of
    these models; there is none if the models were trained to other weights, as on another processor, because documents
    say nothing about how models differ, nor if the quality of a task is no mean over documents that its seeds share.
    """
    tasks = _by_task(pairs)
    before, after = (
        [np.array([POINTS * area(*curve(run.finished)) for run in runs]) for runs in side] for side in _sides(tasks)
    )
    found = difference(after, before, alpha)
    cells = count(len(pairs), "cell")
    if found.interval is not None:
        return Effect(found.mean, found.interval, cells)
    if any(_weights(twin.before) != _weights(twin.after) for twin in pairs):
        return Effect(found.mean, None, f"{cells} with other trained weights; {samples_needed(alpha)} cells are needed")
    if why := _no_documents(tasks):
        return Effect(found.mean, None, f"{cells}, {why}; {samples_needed(alpha)} are needed")
    return Effect(found.mean, _over_documents(tasks, alpha), f"the documents of {cells}")


def _weights(run: Run) -> str | None:
    """Digest of the weights of the task's own model; None if it was not trained here."""
    return run.finished.result.training.weights


def _by_task(pairs: Sequence[Twin]) -> list[list[Twin]]:
    tasks: dict[TaskKey, list[Twin]] = defaultdict(list)
    for twin in pairs:
        tasks[twin.task].append(twin)
    return list(tasks.values())


def _sides(tasks: Sequence[Sequence[Twin]]) -> tuple[list[list[Run]], list[list[Run]]]:
    """The cells of the baseline and those of now, task by task."""
    return [[twin.before for twin in twins] for twins in tasks], [[twin.after for twin in twins] for twins in tasks]


def _no_documents(tasks: Sequence[Sequence[Twin]]) -> str:
    """Why documents cannot be drawn, in words; empty if they can."""
    results = [[twin.after.finished.result for twin in twins] for twins in tasks]
    if any(is_of_corpus(result) or not result.parts for of_task in results for result in of_task):
        return "whose quality is no mean over documents"
    if any([*result.parts.items()] != [*of_task[0].parts.items()] for of_task in results for result in of_task):
        return "of which some have other documents than others"
    return ""


def _over_documents(tasks: Sequence[Sequence[Twin]], alpha: float) -> tuple[float, float]:
    """A document is drawn with its outcomes in all seeds, within its sub-task."""
    parts = [[*twins[0].after.finished.result.parts.values()] for twins in tasks]
    sizes = [size for of_task in parts for size in of_task]
    # The mean over all parts is then that of the tasks, of which one may have more parts than another.
    weights = [len(sizes) / (len(parts) * len(of_task)) for of_task in parts]
    before, after = (
        np.concatenate(
            [
                weight * np.mean([_by_document(run) for run in runs], axis=0)  # (N,)
                for weight, runs in zip(weights, side, strict=True)
            ]
        )
        for side in _sides(tasks)
    )
    found = document_bootstrap(after[None], before[None], sizes, alpha)
    return found.low, found.high


def _by_document(run: Run) -> np.ndarray:
    """Area of each document in points, (N,)."""
    return POINTS * area(curve(run.finished)[0], read_outcomes(run.path).mean(0).T)
