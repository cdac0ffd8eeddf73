"""How tasks, seeds and numbers are written in messages, tables and figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from bench.records.schema import FinishedRecord, TaskKey


def short_names(tasks: Sequence[TaskKey]) -> dict[TaskKey, str]:
    """The shortest clear name of each task: that of its adapter, with data and model if another has the same."""
    adapters = [task.task for task in tasks]
    return {
        task: task.task if adapters.count(task.task) == 1 else f"{task.task} ({task.data}, {task.model})"
        for task in tasks
    }


def seeds_in_words(seeds: Iterable[int]) -> str:
    """``seed 1`` or ``seeds 1, 2``, in ascending order."""
    numbers = sorted(seeds)
    return f"seed{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def number_of_seeds(of_tasks: Collection[Collection[int]]) -> str:
    """``6 seeds`` or, where tasks have other seeds than each other, ``6 seeds per task`` or ``6 to 12 seeds per task``.

    of_tasks: the seeds of each task.
    """
    least, most = min(map(len, of_tasks)), max(map(len, of_tasks))
    number = count(most, "seed") if least == most else f"{least} to {count(most, 'seed')}"
    return number if len(set(map(frozenset, of_tasks))) == 1 else f"{number} per task"


def by_reason(reasons: Mapping[str, str]) -> str:
    """``a, b (no result on X); c (measured at other levels)``, of the reason for each name."""
    names: dict[str, list[str]] = {}
    for name, why in sorted(reasons.items()):
        names.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(of_reason)} ({why})" for why, of_reason in names.items())


def of_one_model(records: Iterable[FinishedRecord]) -> str:
    """What seeds are where no model was trained: draws for one model. Empty where each seed has a model of its own.

    records: of one task.
    """
    if any(record.result.training.steps is not None for record in records):
        return ""
    return "draws of calibration texts for one model"


def all_of_one_model(tasks: Iterable[Iterable[FinishedRecord]]) -> str:
    """What seeds are where no task has a model trained for each of them; empty where some task has."""
    told = {of_one_model(records) for records in tasks}
    return told.pop() if len(told) == 1 else ""


def count(number: int | None, what: str) -> str:
    """``1 seed``, ``2 seeds`` or ``2 processes``."""
    ending = "" if number == 1 else "es" if what.endswith("s") else "s"
    return f"{number} {what}{ending}"


def fixed(value: float, digits: int, sign: str = "") -> str:
    """``value`` with so many decimal places; 0 has no minus. sign: ``+`` for one before positive numbers too."""
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"


def p_in_words(p: float) -> str:
    """A p-value to three digits."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def p_equals(p: float) -> str:
    """``p = 0.031``, or ``p <0.001``."""
    said = p_in_words(p)
    return f"p {said}" if said.startswith("<") else f"p = {said}"


def calibration_in_words(examples: int, source: str) -> str:
    """``128 calibration texts held out of training`` or ``128 calibration texts of the training split``."""
    where = "held out of training" if source == "held-out" else "of the training split"
    return f"{count(examples, 'calibration text')} {where}"
