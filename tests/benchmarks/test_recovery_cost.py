"""The cost of scores from one pass, relative to that pass, and of recovery, relative to forward passes."""

from __future__ import annotations

import pytest
import torch

from methods.contract.choice import Choice
from methods.fisher import fisher
from methods.flap import flap
from methods.heads import gated
from methods.minitron import minitron
from methods.recovery.recover import recover
from methods.wanda_sp import wanda_sp
from tests.benchmarks.test_pass_cost import forward

REPEATS = 5


def forward_and_backward_to_the_gates(view):
    """As little as gradients of each text's gates take."""
    for batch in view.batches:
        gates = torch.ones(len(view.heads), len(batch.labels), requires_grad=True)
        with gated(view.model, gates, view.heads):
            torch.autograd.grad(view.loss(batch).sum(), gates)


@pytest.mark.parametrize(
    ("score", "against"),
    [(fisher, forward_and_backward_to_the_gates), (flap, forward), (minitron, forward), (wanda_sp, forward)],
    ids=["fisher", "flap", "minitron", "wanda-sp"],
)
def test_a_pass(benchmark, workload, tell, score, against):
    view = workload.view("minilm", 64, (5, 25))
    against(view), score(view)
    pairs = [(workload.seconds(score, view)[0], workload.seconds(against, view)[0]) for _ in range(REPEATS)]
    ratio = min(slow for slow, _ in pairs) / min(fast for _, fast in pairs)
    tell(f"minilm: {score.__name__}, in units of a {against.__name__.replace('_', ' ')}", ratio)
    benchmark.pedantic(score, (view,), rounds=1)
    assert ratio <= 1.15


def test_least_squares_of_bert_base(benchmark, workload, tell):
    """Half of the heads of every layer are gone."""
    view = workload.view("bert-base", 128, (128, 128))
    choice = Choice(view.model, view.heads, torch.arange(len(view.heads)) % 2 == 0)
    seconds, found = workload.seconds(recover, view, choice, "lstsq")
    passes = [workload.seconds(forward, view)[0] for _ in range(2)]
    tell("bert-base: lstsq, in units of a forward pass", seconds / min(passes))
    benchmark.pedantic(forward, (view,), rounds=1)
    assert found.recovered + found.unchanged == 12 and seconds <= 3 * min(passes)
