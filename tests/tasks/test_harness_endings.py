"""Endings scored in batches, against one forward pass for each."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.harness.endings import ending_batches, score_endings

VOCABULARY, LONGEST = 7, 6
tokens = st.lists(st.integers(1, VOCABULARY - 1), min_size=1, max_size=LONGEST)


def causal_logits(inputs: torch.Tensor) -> torch.Tensor:
    """Logits (B, T, vocabulary) at each position that depend on all tokens up to it, and on no later one."""
    generator = torch.Generator().manual_seed(0)
    embedding = torch.randn(VOCABULARY, VOCABULARY, generator=generator, dtype=torch.float64)
    weights = torch.arange(1, inputs.shape[1] + 1, dtype=torch.float64)[None, :, None]
    return (embedding[inputs] * weights).cumsum(1)


@settings(max_examples=60)
@given(st.lists(st.tuples(tokens, tokens), min_size=1, max_size=12), st.integers(1, 5))
def test_each_ending_is_scored_as_by_itself(pairs, batch_size):
    batches = ending_batches(pairs, LONGEST, batch_size)
    assert all(len(batch.inputs) <= batch_size for batch in batches)
    found = score_endings(batches, len(pairs), causal_logits, "cpu")
    for (context, ending), (likelihood, greedy) in zip(pairs, found, strict=True):
        inputs = torch.tensor([[*context, *ending][-LONGEST - 1 : -1]])
        scores = causal_logits(inputs)[0, -len(ending) :].log_softmax(-1)
        expected = sum(scores[place, token].item() for place, token in enumerate(ending))
        assert likelihood == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert greedy == (scores.argmax(-1).tolist() == list(ending))


def test_endings_of_one_token_share_their_input():
    (batch,) = ending_batches([((1, 2), (3,)), ((1, 2), (4,)), ((2,), (3,))], LONGEST, 8)
    assert batch.inputs.tolist() == [[1, 2], [2, 0]]
    assert batch.owners.tolist() == [0, 1, 2] and batch.positions.tolist() == [1, 1, 0]
