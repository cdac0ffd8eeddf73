"""The cost of recovery, relative to forward passes."""

from __future__ import annotations

import torch

from methods.contract.choice import Choice
from methods.recovery.recover import recover
from tests.benchmarks.test_pass_cost import forward


def test_least_squares_of_bert_base(benchmark, workload, tell):
    """Half of the heads of every layer are gone."""
    view = workload.view("bert-base", 128, (128, 128))
    choice = Choice(view.model, view.heads, torch.arange(len(view.heads)) % 2 == 0)
    seconds, found = workload.seconds(recover, view, choice, "lstsq")
    passes = [workload.seconds(forward, view)[0] for _ in range(2)]
    tell("bert-base: lstsq, in units of a forward pass", seconds / min(passes))
    benchmark.pedantic(forward, (view,), rounds=1)
    assert found.recovered + found.unchanged == 12 and seconds <= 3 * min(passes)
