"""Well-known shapes of models with random weights, and what arithmetic says of a pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers as t
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from bench.exports.graphs import graphs_of
from methods.heads import HeadMap, remove_heads

SMALL_VOCABULARY = 1000  # of models that are timed: removing heads does not change the layers of a vocabulary
TEXT, PROMPT, CACHED, SOURCE, TARGET = 128, 32, 512, 128, 32  # tokens


@dataclass(frozen=True)
class Step:
    """A pass that is timed: one of the graphs of the model, with its inputs for a batch size."""

    name: str
    graph: int
    inputs: Callable[[Any, int], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Shape:
    """title: as people say it. model: builds one with a number of layers, and of words.

    layers: how many are timed; whole, vocabulary: layers and words of the whole model. names: inputs of a classifier.
    sdpa: whether its attention can be torch's own.
    """

    title: str
    model: Callable[..., Any]
    layers: int
    whole: int
    vocabulary: int
    steps: tuple[Step, ...]
    names: tuple[str, ...] = ("input_ids", "attention_mask")
    sdpa: bool = True


def bert(layers: int, vocabulary: int = SMALL_VOCABULARY) -> Any:
    """BERT-base."""
    return t.BertForSequenceClassification(t.BertConfig(num_hidden_layers=layers, vocab_size=vocabulary)).eval()


def llama(layers: int, vocabulary: int = SMALL_VOCABULARY, *, groups: int) -> Any:
    """Llama 3.2 1B, with as many key/value heads as ``groups``."""
    config = t.LlamaConfig(
        num_hidden_layers=layers,
        vocab_size=vocabulary,
        hidden_size=2048,
        intermediate_size=8192,
        num_attention_heads=32,
        num_key_value_heads=groups,
        max_position_embeddings=2**17,
        tie_word_embeddings=True,
    )
    return t.LlamaForCausalLM(config).eval()


def t5(layers: int, vocabulary: int = SMALL_VOCABULARY) -> Any:
    """T5-base."""
    config = t.T5Config(
        num_layers=layers,
        num_decoder_layers=layers,
        vocab_size=vocabulary,
        d_model=768,
        d_ff=3072,
        num_heads=12,
        decoder_start_token_id=0,
    )
    return t.T5ForConditionalGeneration(config).eval()


def _text(model: Any, batch: int) -> Mapping[str, Tensor]:
    ids = torch.full((batch, TEXT), 3)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _language_model(tokens: int, before: int) -> Callable[[Any, int], Mapping[str, Tensor]]:
    """Inputs of ``tokens`` new tokens after ``before`` others whose keys and values are given."""

    def inputs(model: Any, batch: int) -> Mapping[str, Tensor]:
        mask = torch.ones(batch, before + tokens, dtype=torch.long)
        given = {"input_ids": torch.full((batch, tokens), 3), "attention_mask": mask}
        given["position_ids"] = torch.arange(before, before + tokens).repeat(batch, 1)
        for layer, site in enumerate(HeadMap.of(model).sites):
            for what in ("key", "value") if site.num_heads else ():
                size = (batch, site.num_key_value_heads, before, site.head_dim)
                given[f"past_key_values.{layer}.{what}"] = torch.zeros(size)
        return given

    return inputs


def _target(model: Any, batch: int) -> Mapping[str, Tensor]:
    hidden = torch.zeros(batch, SOURCE, model.config.d_model)
    mask = torch.ones(batch, SOURCE, dtype=torch.long)
    return {
        "input_ids": torch.full((batch, TARGET), 3),
        "encoder_attention_mask": mask,
        "encoder_hidden_states": hidden,
    }


PREFILL, DECODE = (
    Step(f"prompt of {PROMPT}", 0, _language_model(PROMPT, 0)),
    Step(f"token after {CACHED}", 0, _language_model(1, CACHED)),
)
SHAPES = {
    "bert": Shape("BERT-base", bert, 4, 12, 30522, (Step(f"text of {TEXT}", 0, _text),)),
    "llama": Shape(
        "Llama 1B, 32 key/value heads", lambda *sizes: llama(*sizes, groups=32), 2, 16, 128256, (PREFILL, DECODE)
    ),
    "llama-grouped": Shape(
        "Llama 1B, 8 groups", lambda *sizes: llama(*sizes, groups=8), 2, 16, 128256, (PREFILL, DECODE)
    ),
    "t5": Shape(
        "T5-base",
        t5,
        2,
        12,
        32128,
        (Step(f"source of {SOURCE}", 0, _text), Step(f"target of {TARGET}", 1, _target)),
        sdpa=False,
    ),
}


def pruned(model: Any, removed: float, spread: str) -> Any:
    """The model without the share ``removed`` of its heads, or groups.

    spread: ``even``, from every attention module alike; ``uneven``, more from each than from the one below it of the
    same kind (encoder, decoder, cross): of a half, none of the lowest and all of the highest.
    """
    heads = HeadMap.of(model)
    mask = heads.full_mask()
    kinds = [site.kind for site in heads.sites]
    for site, units in enumerate(heads.shape):
        kind = kinds[site]
        height = kinds[:site].count(kind) / (kinds.count(kind) - 1)  # 0 of the lowest module, 1 of the highest
        gone = removed if spread == "even" else 2 * removed * height
        first = (heads.site_of_unit == site).nonzero().flatten()
        mask[first[units - round(gone * units) :]] = False
    return remove_heads(model, mask) if not mask.all() else model


def arithmetic(shape: Shape, step: Step, model: Any) -> tuple[int, int, int]:
    """Of a pass for one text: floating-point operations of its matrix products, and bytes that it reads at least.

    These are the weights of the layers that run, and the keys and values that are given.
    """
    graph = graphs_of(model, shape.names)[step.graph]
    inputs = step.inputs(model, 1)
    weights: dict[int, int] = {}

    def note(module: nn.Module, *_: object) -> None:
        weights.update({id(each): each.nbytes for each in module.parameters(recurse=False)})

    for module in graph.module.modules():
        if not isinstance(module, nn.Embedding):  # of which a few rows are read
            module.register_forward_hook(note)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        graph.module(*(inputs[name] for name in graph.inputs))
    cached = sum(each.nbytes for name, each in inputs.items() if name.startswith("past_"))
    return counter.get_total_flops(), sum(weights.values()), cached


def weight_bytes(model: Any) -> int:
    """Bytes of all weights."""
    return sum(each.nbytes for each in model.parameters())


def cache_bytes(model: Any, tokens: int, element: int = 2) -> int:
    """Bytes of the keys and values of ``tokens`` tokens of one text, with ``element`` bytes a number."""
    return sum(2 * site.num_key_value_heads * site.head_dim * tokens * element for site in HeadMap.of(model).sites)
