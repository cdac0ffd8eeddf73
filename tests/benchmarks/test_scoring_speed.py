"""How much faster gnorm is than its definition, measured in turn: ``pytest tests/benchmarks``.

The definition is taken literally: one backward pass per sentence, without padding, that computes the gradients of the
query, key and value weights alone, or of every weight, as an ordinary backward pass does.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification

from methods import View
from methods.gnorm import gnorm
from methods.heads import HeadMap

SENTENCES, ROUNDS = 16, 5
# The shape of MiniLM-L6-H384, with fewer words.
SHAPE = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}


@dataclass(frozen=True)
class Batch:
    inputs: dict[str, Tensor]
    labels: Tensor


def _view(lengths: tuple[int, int]) -> tuple[View, list[Batch]]:
    """A view with all sentences in one padded batch, and each sentence as a batch of its own."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(vocab_size=1000, **SHAPE)).eval().requires_grad_(False)
    sizes = torch.randint(lengths[0], lengths[1] + 1, (SENTENCES,)).tolist()
    ids = torch.randint(1, 1000, (SENTENCES, max(sizes)))
    mask = (torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]).long()
    labels = torch.randint(2, (SENTENCES,))
    alone = [
        Batch({"input_ids": ids[[row], :size], "attention_mask": mask[[row], :size]}, labels[[row]])
        for row, size in enumerate(sizes)
    ]
    heads = HeadMap.of(model)
    view = View(
        model=model,
        heads=heads,
        batches=[Batch({"input_ids": ids * mask, "attention_mask": mask}, labels)],
        kept=heads.full_mask(),
        generator=torch.Generator(),
        forward=lambda model, batch: model(**batch.inputs).logits,
        loss_of_logits=lambda logits, batch: F.cross_entropy(logits, batch.labels, reduction="none"),
    )
    return view, alone


def _seconds(function, *arguments) -> float:
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


# Calibration batches are sorted by length, so the sentences of a batch have similar lengths.
@pytest.mark.parametrize("lengths", [(20, 24), (112, 128)], ids=["short", "long"])
@pytest.mark.parametrize("every_weight", [False, True], ids=["query-key-value", "every-weight"])
def test_gnorm_in_one_pass(benchmark, workload, capsys, lengths, every_weight):
    view, sentences = _view(lengths)
    torch.testing.assert_close(gnorm(view), workload.literal_gnorm(view, sentences, every_weight), rtol=1e-3, atol=0.0)
    pairs = [
        (_seconds(workload.literal_gnorm, view, sentences, every_weight), _seconds(gnorm, view)) for _ in range(ROUNDS)
    ]
    ratio = statistics.median(slow / fast for slow, fast in pairs)
    benchmark.extra_info["times as fast as one backward pass per sentence"] = ratio
    with capsys.disabled():
        formed = "every weight" if every_weight else "the query, key and value weights"
        print(
            f"\ngnorm on {SENTENCES} sentences of {lengths[0]} to {lengths[1]} tokens: {ratio:.2f} times as fast as "
            f"one backward pass per sentence with gradients of {formed}"
        )
    benchmark.pedantic(gnorm, args=(view,), rounds=ROUNDS, warmup_rounds=1)
