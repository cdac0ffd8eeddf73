"""What a method takes beside the weights, against the memory model in docs/language-models.md."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import LlamaConfig, LlamaForCausalLM

from bench.suites.plugins import load_plugins
from methods import METHODS
from methods.checks.tiny import Batch
from methods.contract.view import View
from methods.heads import HeadMap
from tasks.language_model import LanguageModel
from tasks.request import TaskSpec
from tests.fixtures.slow import slow_cases

load_plugins()

TEXTS, LENGTH = 3, 96
SHAPES = {
    "wide": {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 3, "vocab_size": 200},
    "deep": {"hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 12, "vocab_size": 50},
    "of many words": {"hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 2, "vocab_size": 2000},
}
LLAMA = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}


class Peak(TorchDispatchMode):
    """Inside, counts the bytes of tensors alive that were made inside, and the most that there were at once."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.now = self.most = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return output

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return

        def free() -> None:
            self._known.discard(key)
            self.now -= size

        self._known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, free)


def forward_bytes(config: LlamaConfig, texts: int, length: int, size: int) -> int:
    """A forward pass alone: one feed-forward layer, or the logits, whichever is more. size: bytes of a number."""
    layer = 3 * config.hidden_size + 3 * config.intermediate_size
    return texts * length * size * max(layer, config.hidden_size + config.vocab_size)


def attention_bytes(config: LlamaConfig, texts: int, length: int, size: int) -> int:
    """Attention rows of one layer: as the model has them, and four times in float32 on the way to an entropy."""
    return texts * config.num_attention_heads * length**2 * (size + 4 * 4)


def graph_bytes(config: LlamaConfig, texts: int, length: int, size: int) -> int:
    """What gradients of a loss need: the graph of one batch, without weights, and the logits in float32.

    Of each token and layer: inputs of both norms in float32; queries, keys, values, context and its gated product;
    three times the feed-forward layer's width.
    """
    layer = 2 * 4 * config.hidden_size + size * (6 * config.hidden_size + 3 * config.intermediate_size)
    return texts * length * (config.num_hidden_layers * layer + (size + 2 * 4) * config.vocab_size)


@pytest.fixture(params=SHAPES)
def config(request) -> LlamaConfig:
    return LlamaConfig(num_attention_heads=4, max_position_embeddings=128, **SHAPES[request.param])


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def dtype(request) -> torch.dtype:
    return request.param


def peak_of(name: str, config: LlamaConfig, dtype: torch.dtype) -> int:
    """Bytes that a method takes beside the weights, on three batches."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).to(dtype).eval().requires_grad_(False)
    ids = torch.randint(config.vocab_size, (TEXTS, LENGTH))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "weights": torch.ones_like(ids)}
    batch = Batch(inputs, torch.zeros(TEXTS, dtype=torch.long))
    task = LanguageModel(TaskSpec(task="harness"))
    heads = HeadMap.of(model)
    view = View(
        model,
        heads,
        [batch] * 3,
        heads.full_mask(),
        torch.Generator(),
        task.logits,
        task.loss,
    )
    with Peak(model) as peak:
        METHODS[name].function(view)
    return peak.most


def test_forward_scores_hold_one_layer_of_one_batch(config, dtype):
    assert 0.7 < peak_of("amp", config, dtype) / forward_bytes(config, TEXTS, LENGTH, dtype.itemsize) < 1.6


def test_attention_rows_are_there_of_one_layer(config, dtype):
    size = dtype.itemsize
    most = max(forward_bytes(config, TEXTS, LENGTH, size), attention_bytes(config, TEXTS, LENGTH, size))
    assert 0.7 < peak_of("ae", config, dtype) / most < 1.3


@pytest.mark.parametrize("name", ["michel", *slow_cases("tis", "gnorm")])
def test_gradients_hold_the_graph_of_one_batch(config, dtype, name):
    assert 0.7 < peak_of(name, config, dtype) / graph_bytes(config, TEXTS, LENGTH, dtype.itemsize) < 1.4


def test_numbers_of_llama_2_7b():
    """Those that people are told: bfloat16, one text of 512 tokens."""
    config = LlamaConfig(**LLAMA)
    assert forward_bytes(config, 1, 512, 2) / 2**20 == pytest.approx(44, abs=1)
    assert attention_bytes(config, 1, 512, 2) / 2**20 == pytest.approx(144, abs=1)
    assert graph_bytes(config, 1, 512, 2) / 2**20 == pytest.approx(2500, abs=100)
