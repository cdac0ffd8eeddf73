"""Whether a method scores more slowly than in the baseline, in seconds relative to a control in the same cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

from bench.analysis.costs import cost_in_passes
from bench.analysis.regression.cells import Twin
from bench.analysis.regression.exact import same_choices
from bench.analysis.stats.signflip import samples_needed, sign_flip_interval
from bench.records.schema import FinishedRecord

SHORTEST = 0.005  # seconds of scoring; anything shorter is mostly clock resolution and warm-up
LARGEST_LOG_RATIO = log(2)  # a cell at more than twice the median ratio was held up, and counts as twice the median


@dataclass(frozen=True)
class Slowdown:
    """Scoring seconds now over those of the baseline, each relative to the control of its own cell."""

    ratio: float  # geometric mean over cells, none of them further than a factor of 2 from their median
    interval: tuple[float, float]
    cells: int

    def worse(self, margin: float) -> bool:
        """Whether the slowdown exceeds ``margin``, a share of the seconds, and its interval excludes 1."""
        return self.ratio > 1 + margin and self.interval[0] > 1


def slowdown(pairs: Sequence[Twin], alpha: float) -> Slowdown | str:
    """The slowdown over ``pairs``, finished cells of one method, or why it cannot be judged.

    The control is the evaluation that follows in the same process: the same model on the test split. Whatever slows the
    machine down for a while slows both. On a CPU both are processor seconds, which other processes affect least. Cells
    that removed other units are left out, as their evaluation may start at another layer.
    """
    if any(twin.environment_changes for twin in pairs):
        return "other machine or versions"
    if any(run.finished.measured.processor_seconds is None for twin in pairs for run in (twin.before, twin.after)):
        return "records without processor seconds"
    alike = [twin for twin in pairs if same_choices(twin.before.finished.result, twin.after.finished.result)]
    if not alike:
        return "other units were chosen"
    timed = [twin for twin in alike if _is_timed(twin.before.finished, twin.after.finished)]
    if not timed:
        return "scoring takes no time"
    logs = np.array([log(_relative(twin.after.finished) / _relative(twin.before.finished)) for twin in timed])
    logs = logs.clip(np.median(logs) - LARGEST_LOG_RATIO, np.median(logs) + LARGEST_LOG_RATIO)
    found = sign_flip_interval(logs, alpha)
    if found is None:
        return f"too few cells: at least {samples_needed(alpha)} are needed"
    return Slowdown(exp(logs.mean()), (exp(found[0]), exp(found[1])), len(timed))


def passes_ratio(twin: Twin) -> float:
    """Passes of the method, forward and backward, over those of the baseline."""
    before, after = (cost_in_passes(run.finished) for run in (twin.before, twin.after))
    return after / before if before else (1.0 if not after else float("inf"))


def _seconds(record: FinishedRecord) -> tuple[float, float]:
    """Seconds of scoring, or of a joint method's training, and of the control."""
    measured = record.measured
    if record.cell.device == "cpu" and (processor := measured.processor_seconds):
        return processor.choosing, processor.evaluation
    return measured.scoring_seconds or measured.method_training_seconds, measured.evaluation_seconds


def _is_timed(*records: FinishedRecord) -> bool:
    """Whether one of ``records`` took long enough to be measured."""
    scoring, control = zip(*map(_seconds, records), strict=True)
    return max(scoring) >= SHORTEST and min(control) > 0


def _relative(record: FinishedRecord) -> float:
    scoring, control = _seconds(record)
    return max(scoring, SHORTEST) / control
