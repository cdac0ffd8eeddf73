"""One seed for every random draw. Imports no torch."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tasks.digest import digest_of

Purpose = Literal[
    "initial weights",  # of the task's own model, as far as they are not given
    "training order",  # of the examples that the task's own model is trained on
    "training noise",  # dropout while it is trained
    "held-out examples",  # which training examples are held out for calibration
    "calibration",  # which examples a method scores on
    "method",  # what a method draws from its view's generator
    "global generator",  # what a method or a model draws from torch's own, as dropout does
    "method's training order",  # of the examples that a joint method trains on
]


class Seeds(NamedTuple):
    """The seeds of one task, data set, model and seed: a different one for each purpose.

    No method is among these parts, so all methods see the same model and examples.
    """

    task: str
    data: str
    model: str
    seed: int

    def of(self, purpose: Purpose) -> int:
        """The seed for ``purpose``, from 0 to 2**63 - 1: the first bits of a SHA-256 of it and of all parts."""
        return int(digest_of([*self, purpose])[:16], 16) >> 1
