"""What each method loses, saves and costs at each level, on one task or as a mean over tasks with the same levels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.analysis.comparing.comparable import unlike_most
from bench.analysis.comparing.controls import chooses_at_random
from bench.analysis.curves import removes_parameters
from bench.analysis.kinds import kind
from bench.analysis.machines import makers
from bench.analysis.naming import seeds_in_words, short_names
from bench.analysis.quality import quality_name
from bench.analysis.trade_offs.points import Cost, Point, Unpruned, batches_of, cost_of, points_of, unpruned_of
from bench.analysis.trade_offs.pooled_times import pooled_speedups
from bench.analysis.usual_seeds import most_frequent, usual_seeds
from bench.records.schema import FinishedRecord, TaskKey

ROUNDED = 6  # decimals of shares removed by which levels are the same
BySeed = Mapping[int, FinishedRecord]


@dataclass(frozen=True)
class TradeOffs:
    """The points of all methods that have every seed of every task, measured at the same levels.

    points: by label, for each level that removes some units but not all, fewest removed first. kinds, costs: of every
    label in ``points``. random: the controls that choose at random. left_out: why other methods have no points.
    """

    seeds: Mapping[TaskKey, tuple[int, ...]]  # of each task
    unpruned: Unpruned
    points: Mapping[str, tuple[Point, ...]]
    kinds: Mapping[str, str]
    costs: Mapping[str, Cost]
    controls: frozenset[str]
    random: frozenset[str]
    left_out: Mapping[str, str]

    @property
    def tasks(self) -> list[TaskKey]:
        """The tasks that the points are a mean over, sorted."""
        return list(self.seeds)

    @property
    def batches(self) -> list[int]:
        """Batch sizes that some point was timed at."""
        return sorted({batch for points in self.points.values() for point in points for batch in point.speedups})

    @property
    def methods(self) -> list[str]:
        """Labels that are no controls, sorted."""
        return sorted(self.points.keys() - self.controls)


def levels_of(record: FinishedRecord) -> tuple[float, ...]:
    """Shares of units removed at each level, rounded so that those of models of different sizes can be compared."""
    result = record.result
    return tuple(round(removed / result.units, ROUNDED) for removed in result.removed)


def sharing_levels(records: Iterable[FinishedRecord]) -> list[list[TaskKey]]:
    """Groups of two tasks or more whose quality is the same quantity, most of whose records share their levels."""
    levels: dict[TaskKey, Counter[tuple]] = defaultdict(Counter)
    for record in records:
        levels[record.task][quality_name(record), *levels_of(record)] += 1
    groups: dict[tuple, list[TaskKey]] = defaultdict(list)
    for task in sorted(levels):
        groups[most_frequent(levels[task])].append(task)
    return sorted(group for group in groups.values() if len(group) > 1)


def trade_offs(records: Iterable[FinishedRecord], timed: bool = True) -> TradeOffs:
    """The trade-offs of all ``records``: of one task, or of several that share their levels.

    Methods that remove no parameters have no points. The seeds of a task are those that most methods have there, of the
    methods that have all tasks; a method that lacks one, or was measured under other settings than most, is left out.
    timed: whether times may be used; those of several machines must not be averaged.
    """
    cells: dict[str, dict[TaskKey, dict[int, FinishedRecord]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if removes_parameters(record):
            cells[record.cell.label][record.task][record.cell.seed] = record
    tasks = tuple(sorted({task for of_task in cells.values() for task in of_task}))
    seeds = usual_seeds(cells, tasks)
    every = [record for own in cells.values() for of_task in own.values() for record in of_task.values()]
    levels = most_frequent(Counter(map(levels_of, every))) if every else ()
    left_out = {label: why for label in sorted(cells) if (why := _lacks(cells[label], seeds, levels))}
    for task, of_task in seeds.items():
        others = [cells[label][task][seed] for label in sorted(cells.keys() - left_out.keys()) for seed in of_task]
        left_out |= unlike_most(others)
    complete = {
        label: [[cells[label][task][seed] for seed in seeds[task]] for task in tasks]
        for label in sorted(cells.keys() - left_out.keys())
    }
    batches = batches_of(complete.values()) if timed else []
    some = {label: own[0][0].cell for label, own in complete.items()}
    one_machine = len(makers(every)) <= 1
    speedups = pooled_speedups(complete, batches)
    return TradeOffs(
        seeds=seeds,
        unpruned=unpruned_of(list(complete.values()), batches),
        points={label: points_of(label, own, speedups[label]) for label, own in complete.items()},
        kinds={label: kind(cell) for label, cell in some.items()},
        costs={label: cost_of(own, one_machine) for label, own in complete.items()},
        controls=frozenset(label for label, cell in some.items() if cell.control),
        random=frozenset(label for label, cell in some.items() if chooses_at_random(cell)),
        left_out=left_out,
    )


def _lacks(own: Mapping[TaskKey, BySeed], seeds: Mapping[TaskKey, tuple[int, ...]], levels: tuple[float, ...]) -> str:
    """What a method lacks to have points, in words; empty for nothing."""
    absent = {task: [seed for seed in of_task if seed not in own.get(task, {})] for task, of_task in seeds.items()}
    if missing := {task: of_task for task, of_task in absent.items() if of_task}:
        tasks, names = defaultdict(list), short_names(list(seeds))
        for task, of_task in missing.items():
            which = f" for {seeds_in_words(of_task)}" if task in own else ""
            tasks[which].append(names[task])
        where = [which + (f" on {', '.join(on)}" if len(seeds) > 1 else "") for which, on in tasks.items()]
        return f"no result{', and'.join(where)}"
    records = (own[task][seed] for task, of_task in seeds.items() for seed in of_task)
    return "" if all(levels_of(record) == levels for record in records) else "measured at other levels"
