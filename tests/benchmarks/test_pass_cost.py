"""The cost of one scoring pass relative to a forward pass, or to a forward and backward pass."""

from __future__ import annotations

import pytest
import torch

from methods.gnorm import gnorm
from methods.michel import michel

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


@pytest.mark.parametrize(
    ("score", "against", "most"), [(gnorm, forward_and_backward, 1.15), (michel, forward, 2.1)], ids=["gnorm", "michel"]
)
def test_a_pass(benchmark, workload, tell, score, against, most):
    view = workload.view("minilm", 64, (5, 25))
    against(view), score(view)
    pairs = [(workload.seconds(score, view)[0], workload.seconds(against, view)[0]) for _ in range(REPEATS)]
    ratio = min(slow for slow, _ in pairs) / min(fast for _, fast in pairs)
    tell(f"minilm: a pass of {score.__name__}, in units of a {against.__name__.replace('_', ' ')}", ratio)
    benchmark.pedantic(score, (view,), rounds=1)
    assert ratio <= most
