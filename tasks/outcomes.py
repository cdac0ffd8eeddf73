"""Outcomes of a model on the test split, example by example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Outcomes:
    """Outcomes on the test split, which may be made of several sub-tasks, one after another.

    correct: (N,) bool on the CPU, whether each question is answered correctly. parts: number of questions by sub-task,
    in the order of ``correct``. negative_log_likelihoods: by sub-task whose texts are only scored, that of each text in
    nats, (M,) float64; text_bytes: the texts' lengths in bytes of UTF-8, (M,). metrics: figures of the sub-tasks as
    ``part/metric``, shown in reports.
    """

    correct: Tensor
    parts: Mapping[str, int]
    negative_log_likelihoods: Mapping[str, Tensor] = field(default_factory=dict)
    text_bytes: Mapping[str, Tensor] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def quality(self) -> float:
        """Accuracy, 0 to 1, averaged over sub-tasks.

        If texts are only scored: the probability of a byte, as a geometric mean over each sub-task's bytes.
        """
        if self.parts:
            values = [part.double().mean() for part in self.correct.split(list(self.parts.values()))]
        else:
            scored = self.negative_log_likelihoods.items()
            values = [(-values.sum() / self.text_bytes[name].sum()).exp() for name, values in scored]
        return torch.stack(values).mean().item()
