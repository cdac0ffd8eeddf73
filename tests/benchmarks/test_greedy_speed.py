"""How much faster Greedy-Gnorm's whole trajectory is than its definition, taken by its word.

By its word, every step is a backward for each sentence, through the whole model with what was removed gated to zero,
that forms the gradients of all weights. That costs the same at each step, so it is measured at some of them.
"""

from __future__ import annotations

import pytest
import torch

from methods.gnorm import gnorm
from methods.heads import gated
from methods.schedule import Schedule, trajectories

MEASURED = 3  # steps at which the definition is run


def literal(view, sentences):
    """Eq. 15 as it is written: (units,)."""
    weights = [
        view.model.get_submodule(site.projections[part]).weight
        for site in view.heads.sites
        for part in ("query", "key", "value")
    ]
    heads = view.heads.sites[0].num_heads
    total = torch.zeros(len(view.heads.sites), 3, heads)
    view.model.requires_grad_(True)
    for sentence in sentences:
        view.model.zero_grad()
        view.logits(sentence).norm().backward()
        norms = torch.stack([weight.grad.unflatten(0, (heads, -1)).flatten(1).norm(dim=1) for weight in weights])
        total += norms.view_as(total) / len(sentences)
    view.model.requires_grad_(False).zero_grad()
    return total.prod(1).flatten().double()


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
            seconds, expected = workload.seconds(literal, view, sentences)
        slow.append(seconds)
        torch.testing.assert_close(scores[step], expected[kept], rtol=2e-3, atol=0.0)
    ratio = sum(slow) / len(slow) * steps / fast
    tell(
        f"Greedy-Gnorm on {shape}, {steps} steps, {texts} texts of {lengths[0]} to {lengths[1]} tokens, times as fast",
        ratio,
    )
    assert ratio >= target
