"""Stored pieces of graph are freed with the memory that holds them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
import transformers as t

from methods.heads import HeadMap, remove_heads
from methods.heads.incremental import graph_segments
from methods.heads.incremental.graph_segments import GraphSegments, observed_backward

SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20, "vocab_size": 40}
IDS = torch.arange(1, 13).reshape(2, 6)


def bert() -> t.PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return t.BertForSequenceClassification(t.BertConfig(**SIZES)).eval().requires_grad_(False)


def backward(model: t.PreTrainedModel, memory: dict[Any, GraphSegments]) -> dict[int, torch.Tensor]:
    """The gradients at the queries of each site."""
    found: dict[int, torch.Tensor] = {}
    heads = HeadMap.of(model)

    def keep(site: int, inputs: dict[str, torch.Tensor], grads: dict[str, torch.Tensor]) -> None:
        found[site] = grads["query"].clone()

    observed_backward(lambda: model(input_ids=IDS).logits.square().sum(), model, heads, keep, memory, 0)
    return found


def tensors() -> int:
    gc.collect()
    return sum(isinstance(each, torch.Tensor) for each in gc.get_objects())


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of objects that are looked at
@pytest.mark.parametrize("limit", [2**30, 0])
def test_what_is_stored_is_freed(limit, monkeypatch):
    """Whether it is let go of by its owner, or was too large to be stored at all."""
    monkeypatch.setattr(graph_segments, "GRAPH_BYTES", limit)
    model = bert()
    backward(model, {})
    before = tensors()
    for _ in range(3):
        memory: dict[Any, GraphSegments] = {}
        backward(model, memory)
        assert bool(memory) is bool(limit)
        held = [weakref.ref(each) for each in memory.values()]
        held += [weakref.ref(output) for each in memory.values() for output in each._outputs]
        memory.clear()
        assert [each() for each in held] == [None] * len(held)
    assert tensors() == before


def test_a_pass_that_reuses_lower_blocks_gives_the_gradients_of_a_whole_one():
    model, memory = bert(), dict[Any, GraphSegments]()
    whole = backward(model, memory)
    assert whole.keys() == {0, 1, 2} and all(grads.abs().sum() > 0 for grads in whole.values())
    heads = HeadMap.of(model)
    mask = torch.tensor([unit.site != 1 or unit.heads[0] > 1 for unit in heads.units])
    smaller = remove_heads(model, mask, heads)
    stored, anew = backward(remove_in_place(model, smaller), memory), backward(smaller, {})
    for site, grads in anew.items():
        assert torch.equal(stored[site], grads)


def remove_in_place(model: t.PreTrainedModel, smaller: t.PreTrainedModel) -> t.PreTrainedModel:
    """``model`` itself with the attention of ``smaller`` in its second block, as greedy methods remove heads."""
    layers: Any = model.get_submodule("bert.encoder.layer")
    layers[1].attention = smaller.get_submodule("bert.encoder.layer.1.attention")
    return model
