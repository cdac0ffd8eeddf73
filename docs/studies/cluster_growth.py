"""How long a study takes on more and more slots of a cluster: simulated, with the scheduler of a real run.

    python docs/studies/cluster_growth.py

Cells of known length pass through the queue and the placement of ``bench.run.cluster``; only the clock is simulated.
Writes ``cluster_growth.csv`` and ``cluster_growth.svg`` beside this file, and prints the table of costs that is in
docs/cluster.md, where it is said what they show.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from studied import add, empty_figure, save  # beside this file

from bench.run.cluster.placement import Node, Queue, free
from bench.run.estimates.costs import Costs
from bench.run.estimates.time_left import Estimator
from bench.run.jobs import CellJob, TrainJob
from bench.suites.cells import Cell
from bench.suites.parse import parse_methods
from bench.suites.plugins import load_plugins
from tasks.request import TaskSpec

TABLE, FIGURE = (Path(__file__).with_suffix(suffix) for suffix in (".csv", ".svg"))
SLOTS = (4, 8, 16, 32, 64, 128, 256, 512)
HOURS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # on the axis
OF_A_NODE = 4  # slots
SEEDS, COST_SLOTS = (1, 3, 10), (4, 32, 128)  # of the table of costs
TASKS = ("classification", "mnli", "language_id", "harness")


class Placed(NamedTuple):
    """A job at work."""

    end: float
    index: int
    node: str


@dataclass(frozen=True)
class Growth:
    """What a study takes on so many slots, in seconds.

    bound: the longest chain, or all work on all slots: no schedule takes less. idle_bound: the same, with the slots
    that are idle while models are trained. fetched: models sent to nodes.
    """

    slots: int
    makespan: float
    bound: float
    idle_bound: float
    fetched: int

    @property
    def row(self) -> dict[str, str]:
        """Its row of the table, times in hours, and by which share the makespan is above the bounds."""
        return {
            "slots": str(self.slots),
            "hours": f"{self.makespan / 3600:.4f}",
            "bound_hours": f"{self.bound / 3600:.4f}",
            "over_bound": f"{self.makespan / self.bound - 1:.4f}",
            "idle_bound_hours": f"{self.idle_bound / 3600:.4f}",
            "over_idle_bound": f"{self.makespan / self.idle_bound - 1:.4f}",
            "fetched": str(self.fetched),
        }


def study(seeds: int) -> tuple[list[TrainJob | CellJob], list[float]]:
    """All methods on the built-in tasks, with as many seeds, and the seconds of each job, from known costs."""
    load_plugins()
    jobs: list[TrainJob | CellJob] = []
    for task in TASKS:
        for seed in range(seeds):
            own = [
                Cell(TaskSpec(task=task), task, "model", method, seed, (0, 1), 128, 1.0, "cpu", f"{task}{seed}{method}")
                for method in parse_methods("all")
            ]
            training = TrainJob(own[0], Path())
            jobs += [training, *(CellJob(cell, Path(), needs=training) for cell in own)]
    estimator = Estimator(Costs.shipped())
    return jobs, [estimator.weight(job) for job in jobs]


def simulated(jobs: Sequence[TrainJob | CellJob], lengths: Sequence[float], slots: int) -> Growth:
    """Run ``jobs`` on nodes of ``OF_A_NODE`` slots, each of exactly its length."""
    nodes = [Node(str(number), str(number), OF_A_NODE, OF_A_NODE) for number in range(slots // OF_A_NODE)]
    queue = Queue(jobs, lengths, _model)
    running: list[Placed] = []
    now, fetched, trained = 0.0, 0, set[str]()
    while queue or running:
        while room := free(nodes, running, apart=False, limit=slots):
            if (index := queue.take(room[0].models)) is None:
                break
            fetched += _model(jobs[index]) in trained and _model(jobs[index]) not in room[0].models
            trained.add(_model(jobs[index]))
            room[0].models.add(_model(jobs[index]))
            heapq.heappush(running, Placed(now + lengths[index], index, room[0].id))
        now, index, _ = heapq.heappop(running)
        queue.ended(index)
    chain, idle = max(_chains(jobs, lengths)), _idle(jobs, lengths, slots)
    bound, idle_bound = (max(chain, seconds / slots) for seconds in (sum(lengths), sum(lengths) + idle))
    return Growth(slots, now, bound, idle_bound, fetched)


def _idle(jobs: Sequence[TrainJob | CellJob], lengths: Sequence[float], slots: int) -> float:
    """Seconds that slots are idle before the first training has ended: as many as are more than the trainings."""
    trainings = [length for job, length in zip(jobs, lengths, strict=True) if isinstance(job, TrainJob)]
    return max(0, slots - len(trainings)) * min(trainings)


def _model(job: TrainJob | CellJob) -> str:
    return f"{job.cell.data}, seed {job.cell.seed}"


def _chains(jobs: Sequence[TrainJob | CellJob], lengths: Sequence[float]) -> Iterator[float]:
    """The time of each job with that of the training that it waits for."""
    of_training = {id(job): length for job, length in zip(jobs, lengths, strict=True) if isinstance(job, TrainJob)}
    for job, length in zip(jobs, lengths, strict=True):
        yield length + (of_training[id(job.needs)] if isinstance(job, CellJob) else 0.0)


def growth() -> list[Growth]:
    """What the study of the most seeds takes on each number of slots."""
    jobs, lengths = study(max(SEEDS))
    return [simulated(jobs, lengths, slots) for slots in SLOTS]


def costs() -> Iterator[str]:
    """The table of what studies of more and more cells take, as Markdown."""
    yield (
        "| seeds | cells | trainings | hours on one slot | " + " | ".join(f"on {slots}" for slots in COST_SLOTS) + " |"
    )
    yield "| ---: " * (4 + len(COST_SLOTS)) + "|"
    for seeds in SEEDS:
        jobs, lengths = study(seeds)
        trainings = sum(isinstance(job, TrainJob) for job in jobs)
        hours = [sum(lengths), *(simulated(jobs, lengths, slots).makespan for slots in COST_SLOTS)]
        cells = [str(seeds), f"{len(jobs) - trainings:,}", str(trainings), *(f"{each / 3600:.3f}" for each in hours)]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    found = growth()
    rows = [each.row for each in found]
    TABLE.unlink(missing_ok=True)
    add(TABLE, tuple(rows[0]), rows)
    figure = empty_figure(5, 3)
    axes = figure.add_subplot(xlabel="slots", ylabel="hours", xscale="log", yscale="log", xticks=SLOTS)
    axes.set_xticklabels(SLOTS)
    axes.set_yticks(HOURS, [f"{hours:g}" for hours in HOURS])
    axes.minorticks_off()
    axes.plot(SLOTS, [each.bound / 3600 for each in found], color="0.6", label="bound")
    axes.plot(SLOTS, [each.makespan / 3600 for each in found], "o", color="C0", label="simulated")
    axes.legend()
    save(figure, FIGURE)
    print(*costs(), sep="\n")


if __name__ == "__main__":
    main()
