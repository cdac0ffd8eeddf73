"""From records to samples: one cell is one sample, its random draws averaged, with what statistics ask of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.analysis.cell_metrics import curve, parameters_removed, removes
from bench.analysis.quality_scale import measure
from bench.analysis.settings import in_words
from bench.records.errors import InputError
from bench.records.schema import FailedRecord, FinishedRecord, TaskKey
from bench.records.store import CorruptRecord, read_current, read_outcomes


@dataclass(frozen=True, eq=False)
class Sample:
    """One finished cell."""

    task: TaskKey
    label: str
    seed: int
    control: bool
    removes: str  # heads, neurons, or both
    measure: str  # what quality is: accuracy, or the probability of a byte
    trained: float  # share of the task's own training that the method took for each level; 0 where it trains nothing
    units: int
    shares: np.ndarray  # (levels,) of units removed
    parameters: np.ndarray  # (levels,) share of parameters removed
    quality: np.ndarray  # (levels,) mean over draws
    chance: float
    parts: tuple[int, ...]  # sizes of the sub-tasks whose examples lie one after another; empty where it scores texts
    draws: int  # random ones, within the seed
    orders: np.ndarray | None  # (draws, units) removal orders; None for a method that chooses masks
    weights: str | None  # digest of the model's weights, where the benchmark trained it
    settings: str  # of the measurement, in words: what has to be equal for samples to be compared
    origin: str | None  # digest of the data, and of the model where none is trained; None where a record has none
    path: Path

    def outcomes(self, place: int) -> np.ndarray:
        """Share of draws that are right on each test example at the level ``place``: (N,). Raises InputError."""
        try:
            return read_outcomes(self.path)[:, place].mean(0)
        except CorruptRecord as error:
            raise InputError(f"corrupt record {error}") from error


@dataclass(frozen=True)
class Failure:
    """One failed cell."""

    task: TaskKey
    label: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Samples:
    """The samples of a folder, and what is not among them."""

    samples: tuple[Sample, ...]
    failures: tuple[Failure, ...]
    other_protocol: int  # number of records that were made under another protocol

    def tasks(self) -> list[TaskKey]:
        """Sorted."""
        return sorted({sample.task for sample in self.samples})

    def labels(self) -> list[str]:
        """Sorted."""
        return sorted({sample.label for sample in self.samples})

    def of(self, task: TaskKey, label: str) -> dict[int, Sample]:
        """The samples of a method on a task, by seed."""
        return {sample.seed: sample for sample in self.samples if (sample.task, sample.label) == (task, label)}


def load(folder: Path) -> Samples:
    """The samples of the records in ``folder`` that were made under the current protocol.

    Raises InputError where there is none, or one is corrupt.
    """
    current, others = read_current(folder)
    return Samples(
        tuple(_sample(path, record) for path, record in current.items() if isinstance(record, FinishedRecord)),
        tuple(
            Failure(record.task, record.cell.label, record.cell.seed, record.reason)
            for record in current.values()
            if isinstance(record, FailedRecord)
        ),
        others,
    )


def check_equal(samples: Iterable[Sample]) -> None:
    """Raises InputError where samples of one task were not measured on the same examples at the same levels.

    Nor may those that are trained differ in how long: of two methods, or of two seeds of one.
    """
    samples = list(samples)
    settings: dict[TaskKey, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    origins: dict[TaskKey, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    trained: dict[TaskKey, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    trains = {(sample.task, sample.label) for sample in samples if sample.trained}
    for sample in samples:
        settings[sample.task][f"{len(sample.outcomes(0))} test examples, {sample.settings}"].add(sample.label)
        if sample.origin:
            origins[sample.task][f"data or model {sample.origin[:8]}"].add(sample.label)
        if (sample.task, sample.label) in trains:
            share = f"trained for {100 * sample.trained:.3g} % of the task's own training"
            trained[sample.task][share].add(sample.label)
    for task, kinds in (*settings.items(), *origins.items(), *trained.items()):
        if len(kinds) > 1:
            told = "; ".join(f"{', '.join(sorted(labels))}: {what}" for what, labels in sorted(kinds.items()))
            raise InputError(f"{', '.join(task)}: measured in different ways, which cannot be compared: {told}")


def area(shares: np.ndarray, quality: np.ndarray) -> float:
    """Mean of ``quality``, (levels,), over the shares removed, (levels,), by trapezoids; in the unit of quality."""
    return float(np.trapezoid(quality, shares) / (shares[-1] - shares[0]))


def area_to(most: float, sample: Sample) -> float:
    """Mean quality over the shares of parameters removed from 0 to ``most``, linear between the levels measured."""
    inside = sample.parameters[sample.parameters < most]
    grid = np.append(inside, most)
    return area(grid, np.interp(grid, sample.parameters, sample.quality))


def _sample(path: Path, record: FinishedRecord) -> Sample:
    cell, result = record.cell, record.result
    shares, quality = curve(record)
    return Sample(
        task=record.task,
        label=cell.label,
        seed=cell.seed,
        control=cell.control,
        removes=removes(record),
        measure=measure(record),
        trained=cell.trained or 0.0,
        units=result.units,
        shares=shares,
        parameters=parameters_removed(record),
        quality=quality,
        chance=result.chance,
        parts=tuple(result.parts.values()),
        draws=len(result.quality),
        orders=np.array(result.orders) if result.orders else None,
        weights=result.training.weights,
        settings=in_words(record),
        origin=cell.origin,
        path=path,
    )
