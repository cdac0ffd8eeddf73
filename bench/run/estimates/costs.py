"""What jobs cost relative to each other, learnt from records.

To learn them again: ``python -m bench.run.estimates.costs results/mini > FILE``.

The file beside this module holds the costs of the built-in suite. Only their proportions count: a run learns how fast
its machine is. Those of ``translation`` are coarse: one seed of ten methods on a busy machine, in units such that
timing costs there what it does in the other tasks.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median
from typing import Any

from bench.records.schema import FinishedRecord
from bench.records.storage.current import finished, read_current

FILE = Path(__file__).with_name("costs.json")


class Costs:
    """Costs of jobs in units of an average cell.

    content: ``train`` and ``timing``, a number by task; ``cell``, a number by task and label of a method; ``trains``,
    labels of methods that train.
    """

    def __init__(self, content: dict[str, Any]):
        self._content = content

    @classmethod
    def shipped(cls) -> Costs:
        """Those of the built-in suite."""
        return cls(json.loads(FILE.read_text(encoding="utf-8")))

    def of(self, kind: str, task: str, label: str, trains: bool) -> float:
        """The cost of a job of this kind (train, timing or cell); of what is not known, that of what is most alike.

        A cell of an unknown method costs what those methods cost on average that train like it, or do not.
        """
        costs = self._content[kind]
        if kind != "cell":
            return costs.get(task) or mean(costs.values() or [1.0])
        tables = [costs[task]] if task in costs else list(costs.values())
        base = label.partition(":")[0]
        for name in (label, base):
            if known := [table[name] for table in tables if name in table]:
                return mean(known)
        alike = [
            cost for table in tables for name, cost in table.items() if (name in self._content["trains"]) == trains
        ]
        return mean(alike or [1.0])


def learnt_from(records: Iterable[FinishedRecord]) -> dict[str, Any]:
    """The content of ``Costs``: medians over seeds, in units of the mean cell, to three digits."""
    train, timing = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    cells: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    trains = set()
    for record in records:
        cell, measured = record.cell, record.measured
        cells[cell.task][cell.label].append(measured.seconds)
        if cell.trained:
            trains.add(cell.label)
        for costs, seconds in ((train, measured.training_seconds), (timing, measured.timing_seconds)):
            if seconds:
                costs[cell.task].append(seconds)
    unit = mean(median(seconds) for table in cells.values() for seconds in table.values())

    def relative(seconds: list[float]) -> float:
        return float(f"{median(seconds) / unit:.3g}")

    return {
        "train": {task: relative(costs) for task, costs in sorted(train.items())},
        "timing": {task: relative(costs) for task, costs in sorted(timing.items())},
        "cell": {
            task: {label: relative(costs) for label, costs in sorted(table.items())}
            for task, table in sorted(cells.items())
        },
        "trains": sorted(trains),
    }


if __name__ == "__main__":
    print(json.dumps(learnt_from(finished(read_current(Path(sys.argv[1]))[0])), indent=1))
