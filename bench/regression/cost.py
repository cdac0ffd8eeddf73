"""Whether a method scores more slowly than in the baseline, by seconds that noise of the machine cancels out of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

from bench.records import Record
from bench.regression.cells import Twin
from bench.stats.signflip import samples_needed, sign_flip_interval

SHORTEST = 0.005  # seconds of scoring below which the clock and the first call are all there is to see
FARTHEST = log(2)  # a ratio beyond 2, of a cell that was held up, counts as 2


@dataclass(frozen=True)
class Slowdown:
    """Scoring seconds now over those of the baseline, each in units of the control of its own cell."""

    ratio: float  # geometric mean over cells
    interval: tuple[float, float]
    cells: int

    def worse(self, margin: float) -> bool:
        """Whether it exceeds both ``margin``, a share of the seconds, and its interval."""
        return self.ratio > 1 + margin and self.interval[0] > 1


def slowdown(pairs: Sequence[Twin], alpha: float) -> Slowdown | str:
    """The change in cost of ``pairs``, finished cells of one method, or why it cannot be told.

    The control is the evaluation that follows the scoring in the same process: the same model sent over the test split,
    pruned to the levels. What slows a machine down for some seconds slows both. Cells that chose other units are left
    out: the evaluation starts at the lowest layer that lost one.
    """
    alike = [twin for twin in pairs if _choices(twin.before.record) == _choices(twin.after.record)]
    timed = [twin for twin in alike if min(_scoring(twin.before.record), _scoring(twin.after.record)) >= SHORTEST]
    if not timed:
        return "no time to score" if alike else "other units were chosen"
    if any(twin.moved for twin in timed):
        return "other machine or versions"
    logs = np.array([log(_relative(twin.after.record) / _relative(twin.before.record)) for twin in timed])
    logs = logs.clip(-FARTHEST, FARTHEST)
    found = sign_flip_interval(logs, alpha)
    if found is None:
        return f"too few cells of it: {samples_needed(alpha)} would do"
    return Slowdown(exp(logs.mean()), (exp(found[0]), exp(found[1])), len(timed))


def passes_ratio(twin: Twin) -> float:
    """Examples sent forward and backward now, over those of the baseline."""
    before, after = (sum(_passes(run.record).values()) for run in (twin.before, twin.after))
    return after / before if before else (1.0 if not after else float("inf"))


def _passes(record: Record) -> dict[str, int]:
    result = record["result"]
    return result["method_training"]["passes"] if result["method_training"] else result["passes"]


def _choices(record: Record) -> tuple:
    return record["result"]["orders"], record["result"]["kept"]


def _scoring(record: Record) -> float:
    return record["measured"]["scoring_seconds"] or record["measured"]["method_training_seconds"]


def _relative(record: Record) -> float:
    return _scoring(record) / record["measured"]["evaluation_seconds"]
