"""Whether a method scores more slowly than in the baseline, by seconds that noise of the machine cancels out of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

from bench.records import Record
from bench.regression.cells import Twin
from bench.regression.exact import same_choices
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

    The control is the evaluation that follows in the same process: the same model, sent over the test split. What slows
    a machine down for some time slows both. On a CPU both are processor seconds, which others on the machine change
    least. Cells that chose other units are left out: the evaluation starts at the lowest layer that lost one.
    """
    if any(twin.moved for twin in pairs):
        return "other machine or versions"
    if any("processor_seconds" not in run.record["measured"] for twin in pairs for run in (twin.before, twin.after)):
        return "records without processor seconds"
    alike = [twin for twin in pairs if same_choices(twin.before.record["result"], twin.after.record["result"])]
    if not alike:
        return "other units were chosen"
    timed = [twin for twin in alike if min(_seconds(run.record)[0] for run in (twin.before, twin.after)) >= SHORTEST]
    if not timed:
        return "no time to score"
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


def _seconds(record: Record) -> tuple[float, float]:
    """Of scoring, or of a joint method's training, and of the control."""
    measured = record["measured"]
    if record["cell"]["device"] == "cpu":
        return measured["processor_seconds"]["choosing"], measured["processor_seconds"]["evaluation"]
    return measured["scoring_seconds"] or measured["method_training_seconds"], measured["evaluation_seconds"]


def _relative(record: Record) -> float:
    scoring, control = _seconds(record)
    return scoring / control
