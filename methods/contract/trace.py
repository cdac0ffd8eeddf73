"""What a training was like on the way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trace:
    """A training in stretches: each value is a mean over the steps since the stretch before.

    steps: number of the last step of each stretch, from 1.
    loss: task loss of the training batches, without penalties.
    right: share of their examples that are classified rightly; empty where the model does not classify.
    open: number of units with a gate of at least 0.01; empty where there are no gates.
    """

    steps: tuple[int, ...]
    loss: tuple[float, ...]
    right: tuple[float, ...] = ()
    open: tuple[float, ...] = ()
