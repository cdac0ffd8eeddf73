"""The cost of one scoring pass relative to a forward pass, or to a forward and backward pass."""

from __future__ import annotations

import pytest
import torch

from methods.fisher import fisher
from methods.flap import flap
from methods.gnorm import gnorm
from methods.heads import gated
from methods.michel import michel
from methods.minitron import minitron
from methods.wanda_sp import wanda_sp

REPEATS = 5


def forward(view):
    with torch.no_grad():
        for batch in view.batches:
            view.logits(batch)


def forward_and_backward(view):
    """Backward to the embeddings; no weight requires a gradient."""
    embeddings = view.model.get_input_embeddings()
    hook = embeddings.register_forward_hook(lambda module, args, output: output.requires_grad_())
    for batch in view.batches:
        view.logits(batch).norm(dim=1).sum().backward()
    hook.remove()


def forward_and_backward_to_the_gates(view):
    """As little as gradients of each text's gates take."""
    for batch in view.batches:
        gates = torch.ones(len(view.heads), len(batch.labels), requires_grad=True)
        with gated(view.model, gates, view.heads):
            torch.autograd.grad(view.loss(batch).sum(), gates)


@pytest.mark.parametrize(
    ("score", "against", "most"),
    [
        (gnorm, forward_and_backward, 1.15),
        (michel, forward, 2.1),
        (fisher, forward_and_backward_to_the_gates, 1.15),
        (flap, forward, 1.15),
        (minitron, forward, 1.15),
        (wanda_sp, forward, 1.15),
    ],
    ids=["gnorm", "michel", "fisher", "flap", "minitron", "wanda-sp"],
)
def test_a_pass(benchmark, workload, tell, score, against, most):
    view = workload.view("minilm", 64, (5, 25))
    against(view), score(view)
    pairs = [(workload.seconds(score, view)[0], workload.seconds(against, view)[0]) for _ in range(REPEATS)]
    ratio = min(slow for slow, _ in pairs) / min(fast for _, fast in pairs)
    tell(f"minilm: a pass of {score.__name__}, in units of a {against.__name__.replace('_', ' ')}", ratio)
    benchmark.pedantic(score, (view,), rounds=1)
    assert ratio <= most
