"""Squared slopes of the loss in each gate, a text at a time."""

from __future__ import annotations

import pytest
import torch

from methods.fisher import fisher
from tests.fixtures.slow import slow_cases
from tests.methods.slopes import slopes


@pytest.mark.parametrize("seed", [0, *slow_cases(1)])
def test_finite_differences_on_each_text(tiny, architecture, seed):
    model, sentences = tiny.model(architecture, seed, torch.float64), tiny.sentences(seed, count=5)
    first, second = tiny.sides(architecture)
    batches = [tiny.batch(sentences[:3], first, extra=seed), tiny.batch(sentences[3:], second)]
    view = tiny.view(model, batches, tiny.unit(architecture))
    expected = sum(slopes(view, text) ** 2 for text in tiny.alone(sentences)) / len(sentences)
    torch.testing.assert_close(fisher(view), expected.sqrt(), rtol=1e-4, atol=1e-7)
