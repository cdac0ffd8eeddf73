"""What a model answers, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Answers:
    """What a model makes of the test split, whose examples may be those of several sub-tasks, one after another.

    right: (N,) bool on the CPU, whether each question is answered right. parts: number of questions by sub-task, in
    the order of ``right``. nats: by sub-task without right or wrong, -log p of each text, (M,) float64; sizes: the
    texts' lengths in bytes of UTF-8, (M,). metrics: figures of the sub-tasks as ``part/metric``, for people.
    """

    right: Tensor
    parts: Mapping[str, int]
    nats: Mapping[str, Tensor] = field(default_factory=dict)
    sizes: Mapping[str, Tensor] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def quality(self) -> float:
        """Share of right answers, 0 to 1, averaged over sub-tasks.

        Where there are only texts: the probability of a byte, as a geometric mean over each sub-task's bytes.
        """
        if self.parts:
            values = [part.double().mean() for part in self.right.split(list(self.parts.values()))]
        else:
            values = [(-nats.sum() / self.sizes[name].sum()).exp() for name, nats in self.nats.items()]
        return torch.stack(values).mean().item()
