"""The seeds of each task that methods are ranked by, and by which trade-offs are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from bench.records.schema import TaskKey


def usual_seeds(
    seeds: Mapping[str, Mapping[TaskKey, Collection[int]]], tasks: Sequence[TaskKey]
) -> dict[TaskKey, tuple[int, ...]]:
    """For each of ``tasks`` the set of seeds that most methods have there, of the methods that have all of them.

    seeds: by method and task; a task that a method lacks is missing there, or empty. Where no method has all tasks, all
    methods count. Every task must be one that some method has.
    """
    whole = [own for own in seeds.values() if all(own.get(task) for task in tasks)] or list(seeds.values())
    return {task: most_frequent(Counter(tuple(sorted(own[task])) for own in whole if own.get(task))) for task in tasks}


def most_frequent(counted: Counter[tuple]) -> tuple:
    """The most frequent; of equally frequent ones the longest."""
    return max(counted, key=lambda each: (counted[each], len(each), each))
