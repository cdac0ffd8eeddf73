"""Whether cells may be compared: the settings that change what a cell measures, and those in which cells differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from bench.records.errors import InputError
from bench.records.schema import FinishedRecord, Record, TaskKey

# Fields of the request for a task that change what is measured, not only where it is read from.
REQUEST_FIELDS = (
    "text",
    "label",
    "finetune",
    "limit",
    "harness_tasks",
    "dtype",
    "languages",
    "beams",
    "label_smoothing",
)
# What these stand for where nothing was asked.
DEFAULTS = {"dtype": "float32", "beams": 1}
# Which part of the data is used: where digests of data are equal, so is that, in whatever words it was asked for.
OF_DATA = ("text", "label", "limit")
AnyRecord = TypeVar("AnyRecord", bound=Record)


def settings(record: Record) -> dict[str, str]:
    """The settings of a cell by name, in words.

    One that a record does not have is missing: the levels of a failed cell, the training of a method without any.
    """
    cell = record.cell
    found = {name.replace("_", " "): _in_words(cell.asked.get(name) or DEFAULTS.get(name)) for name in REQUEST_FIELDS}
    found["calibration examples"] = str(cell.calibration)
    found["calibration from"] = cell.calibration_from
    if cell.origin:
        found["digest of data and model"] = cell.origin[:12]
    if cell.trained:
        found["training"] = f"{100 * cell.trained:.3g} % of the task's own"
    if isinstance(record, FinishedRecord):
        result = record.result
        found["units removed"] = f"{', '.join(map(str, result.removed))} of {result.units}"
        found["test examples"] = ", ".join(f"{name} {size}" for name, size in result.parts.items()) or "texts only"
        found["chance"] = f"{result.chance:.6g}"
    return found


def differing(records: Iterable[AnyRecord]) -> dict[str, dict[str, list[AnyRecord]]]:
    """The settings in which ``records`` of one task differ: for each, its values with the records that have them."""
    found: dict[str, dict[str, list[AnyRecord]]] = defaultdict(lambda: defaultdict(list))
    records = list(records)
    for record in records:
        for name, value in settings(record).items():
            found[name][value].append(record)
    alike = alike_by_digest(records)
    return {name: dict(values) for name, values in found.items() if len(values) > 1 and name not in alike}


def unlike_most(records: Iterable[Record]) -> dict[str, str]:
    """Of ``records`` of one task the labels that were measured under other settings than most, and what is other."""
    found: dict[str, str] = {}
    for name, values in differing(records).items():
        by_label: dict[str, set[str]] = defaultdict(set)  # several where seeds differ
        for value, having in values.items():
            for record in having:
                by_label[record.cell.label].add(value)
        counted = Counter(map(frozenset, by_label.values()))
        usual = max(counted, key=lambda own: (counted[own], sorted(own)))
        for label, own in by_label.items():
            if own != usual:
                found.setdefault(label, f"{name} {' and '.join(sorted(own))} instead of {' and '.join(sorted(usual))}")
    return found


def alike_by_digest(records: Iterable[Record]) -> tuple[str, ...]:
    """The settings in which ``records`` do not differ, whatever they say, as digests of their data are equal."""
    origins = {record.cell.origin for record in records}
    return OF_DATA if len(origins) == 1 and all(origins) else ()


def differences_in_words(records: Iterable[AnyRecord], who: Callable[[Sequence[AnyRecord]], Any]) -> dict[TaskKey, str]:
    """For each task whose records differ in a setting ``limit 50 (WHO), limit none (WHO)``, and so on.

    who: says in brackets which records have a value, or how many.
    """
    by_task: dict[TaskKey, list[AnyRecord]] = defaultdict(list)
    for record in records:
        by_task[record.task].append(record)
    return {
        task: "; ".join(
            ", ".join(f"{name} {value} ({who(having)})" for value, having in sorted(values.items()))
            for name, values in found.items()
        )
        for task, of_task in sorted(by_task.items())
        if (found := differing(of_task))
    }


def check_comparable(records: Iterable[Record]) -> None:
    """Raise InputError if records of the same task were measured under different settings."""
    found = differences_in_words(records, lambda having: ", ".join(sorted({record.cell.label for record in having})))
    for task, told in found.items():
        raise InputError(f"{', '.join(task)}: measured under different settings, which cannot be compared: {told}")


def _in_words(value: Any) -> str:
    return ("+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)) if value else "none"
