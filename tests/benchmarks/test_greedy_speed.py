"""How much faster the whole trajectory of Greedy-Gnorm is than its definition, taken literally.

Taken literally, every step is one backward pass per sentence through the whole model, with removed heads gated to zero,
that computes the gradients of all weights. All steps cost the same, so only some are measured.
"""

from __future__ import annotations

import pytest
import torch

from methods.contract.schedule import Schedule, trajectories
from methods.gnorm import gnorm
from methods.heads import gated

MEASURED = 3  # steps at which the definition is run


@pytest.mark.parametrize(
    ("shape", "texts", "target"), [("minilm", 128, 4.0), ("bert-base", 8, 5.0)], ids=["minilm", "bert-base"]
)
def test_a_whole_trajectory(benchmark, workload, tell, shape, texts, target):
    lengths = (5, 25)
    view = workload.view(shape, texts, lengths)
    sentences = workload.alone(view.batches)
    scores = []

    def score(now):
        scores.append(gnorm(now))
        return scores[-1]

    def run():
        return trajectories(score, view, Schedule(recompute=1))[0].order

    fast, order = workload.seconds(lambda: benchmark.pedantic(run, rounds=1))
    steps = len(order)
    slow = []
    for step in range(0, steps, steps // MEASURED):
        kept = view.heads.full_mask()
        kept[order[:step]] = False
        with gated(view.model, kept.float(), view.heads):
            seconds, expected = workload.seconds(workload.literal_gnorm, view, sentences)
        slow.append(seconds)
        torch.testing.assert_close(scores[step], expected[kept], rtol=2e-3, atol=0.0)
    ratio = sum(slow) / len(slow) * steps / fast
    tell(
        f"Greedy-Gnorm on {shape}, {steps} steps, {texts} texts of {lengths[0]} to {lengths[1]} tokens, times as fast",
        ratio,
    )
    assert ratio >= target
