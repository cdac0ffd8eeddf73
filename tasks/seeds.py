"""One seed for every random draw. Imports torch late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

from tasks.digest import digest_of

if TYPE_CHECKING:  # slow to import
    import torch

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


@contextmanager
def drawn_from(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Inside, torch draws from ``seed``; the global random states stay as they were.

    device: the one that draws; the CPU by default. For the CPU, no GPU is seeded or asked for its state: that would
    begin to use it, after which no forked process could.
    """
    import torch

    on_gpu = device is not None and device.type == "cuda"
    seeded = torch.manual_seed if on_gpu else torch.default_generator.manual_seed
    with torch.random.fork_rng(range(torch.cuda.device_count()) if on_gpu else []):
        seeded(seed)
        yield
