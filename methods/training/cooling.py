"""The temperature of relaxed gates over the steps of a training, and how fast their parameters learn meanwhile."""

from __future__ import annotations

import math
from dataclasses import dataclass

PAPER_STEPS, PAPER_COOLDOWN = 36_816, 25_000  # three epochs of MNLI in batches of 32
PAPER_RATE = 0.5


@dataclass(frozen=True)
class Cooling:
    """Temperatures that fall log-linearly from ``start`` to ``end`` over ``steps`` steps and then stay.

    learning_rate: initial learning rate of the gates' parameters.
    """

    start: float
    end: float
    steps: int
    learning_rate: float

    def at(self, step: int) -> float:
        """Temperature at ``step``, from 0."""
        if step >= self.steps:
            return self.end
        return math.exp(math.log(self.start) + step / self.steps * (math.log(self.end) - math.log(self.start)))


def paper(steps: int) -> Cooling:
    """The schedule of Li, Cotterell & Sachan 2021 for MNLI, with their share of cooldown in ``steps`` steps."""
    return Cooling(1000.0, 1e-8, round(steps * PAPER_COOLDOWN / PAPER_STEPS), PAPER_RATE)


def by_steps(steps: int, frozen: bool = False) -> Cooling:
    """A schedule that follows from the number of steps, and is the paper's at the paper's number.

    However few the steps, the temperature falls from 1 to 0.01, where gates differ from each other and still move. Of
    the paper's other decades, three above these and six below, it passes a part in proportion to the steps; the share
    of cooldown is the paper's. Where weights adapt to the gates, the learning rate grows slowly as steps get fewer, so
    that the parameters still separate beyond the noise: 1.0 at 120 steps. With ``frozen`` weights only the order of the
    parameters counts, and it falls: 0.24 at 120 steps. From the paper's number of steps on, it is the paper's schedule.
    """
    share = min(1.0, steps / PAPER_STEPS)
    return Cooling(
        start=10 ** (3 * share),
        end=10 ** (-2 - 6 * share),
        steps=round(steps * PAPER_COOLDOWN / PAPER_STEPS),
        learning_rate=PAPER_RATE * share ** (0.125 if frozen else -0.125),
    )
