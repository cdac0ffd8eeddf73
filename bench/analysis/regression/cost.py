"""Whether a method scores more slowly than in the baseline, by seconds that noise of the machine cancels out of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

from bench.analysis.cell_metrics import cost_in_passes
from bench.analysis.regression.cells import Twin
from bench.analysis.regression.exact import same_choices
from bench.analysis.stats.signflip import samples_needed, sign_flip_interval
from bench.records.schema import FinishedRecord

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
    if any(run.finished.measured.processor_seconds is None for twin in pairs for run in (twin.before, twin.after)):
        return "records without processor seconds"
    alike = [twin for twin in pairs if same_choices(twin.before.finished.result, twin.after.finished.result)]
    if not alike:
        return "other units were chosen"
    timed = [twin for twin in alike if min(_seconds(run.finished)[0] for run in (twin.before, twin.after)) >= SHORTEST]
    if not timed:
        return "no time to score"
    logs = np.array([log(_relative(twin.after.finished) / _relative(twin.before.finished)) for twin in timed])
    logs = logs.clip(-FARTHEST, FARTHEST)
    found = sign_flip_interval(logs, alpha)
    if found is None:
        return f"too few cells of it: {samples_needed(alpha)} would do"
    return Slowdown(exp(logs.mean()), (exp(found[0]), exp(found[1])), len(timed))


def passes_ratio(twin: Twin) -> float:
    """Examples sent forward and backward now, over those of the baseline."""
    before, after = (cost_in_passes(run.finished).total for run in (twin.before, twin.after))
    return after / before if before else (1.0 if not after else float("inf"))


def _seconds(record: FinishedRecord) -> tuple[float, float]:
    """Of scoring, or of a joint method's training, and of the control."""
    measured = record.measured
    if record.cell.device == "cpu" and (processor := measured.processor_seconds):
        return processor.choosing, processor.evaluation
    return measured.scoring_seconds or measured.method_training_seconds, measured.evaluation_seconds


def _relative(record: FinishedRecord) -> float:
    scoring, control = _seconds(record)
    return scoring / control
