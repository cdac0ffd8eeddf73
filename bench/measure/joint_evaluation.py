"""What a joint method has trained for one budget, measured as soon as it is there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import torch

from bench.measure import evaluate as quality
from bench.measure.cost import Passes, working
from bench.measure.exclusive import Turn
from methods.contract.choice import Choice
from tasks.contract import Task


@dataclass
class Arrivals:
    """Evaluates choices one by one, so that no more weights are held at once than those that are timed later.

    measured: numbers of units removed at which quality is wanted. timed: those whose weights are still needed.
    """

    task: Task
    measured: Collection[int]
    timed: Collection[int]
    passes: Passes
    turn: Turn
    device: torch.device
    found: dict[int, quality.Evaluation] = field(default_factory=dict)
    seconds: float = 0.0  # of evaluation
    processor_seconds: float = 0.0

    def __call__(self, removed: int, choice: Choice) -> Choice:
        """``choice``, without its weights where nothing needs them any more."""
        if removed in self.measured:
            with self.passes.paused(), self.turn.timing(self.device) as seconds, working() as work:
                self.found[removed] = quality.measure(self.task, choice.smaller())
            self.seconds += seconds[0]
            self.processor_seconds += work[0]
        return choice if removed in self.timed else choice.released()
