"""The graphs that a model is exported as, with the names of their inputs and outputs as Optimum has them.

A classifier is one graph. A causal language model is one too, which takes the keys and values of earlier tokens, if
any, and gives those of all. An encoder-decoder that generates is two: the encoder, and the decoder without a cache.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from bench.exports.tracing import traceable
from methods.heads import HeadMap, Site

BATCH, LENGTH, PAST, SOURCE = "batch", "sequence", "past_sequence", "encoder_sequence"
EXAMPLES, TOKENS, EARLIER = 2, 4, 3  # sizes of the example; none is 0 or 1, which torch would take for a constant


@dataclass(frozen=True)
class Graph:
    """What one file computes: ``module``, called with the values of ``inputs`` in their order.

    axes: names of the sizes that may vary, by input and axis. outputs: names of the results.
    """

    name: str
    module: nn.Module
    inputs: Mapping[str, Tensor]
    axes: Mapping[str, Mapping[int, str]]
    outputs: tuple[str, ...]


def graphs_of(model: PreTrainedModel, names: tuple[str, ...]) -> list[Graph]:
    """The graphs of ``model``, which are made of a copy in float32 on the CPU.

    names: of the inputs of a classifier, (batch, sequence) each.
    """
    model = traceable(model).cpu().float().eval()
    model.set_attn_implementation("eager")  # decomposed, other ones ask for memory laid out as runtimes do not
    ids, ones = torch.full((EXAMPLES, TOKENS), 3), torch.ones(EXAMPLES, TOKENS, dtype=torch.long)
    if model.can_generate() and model.config.is_encoder_decoder:
        return _encoder_and_decoder(model, ids, ones)
    if model.can_generate():
        return [_decoder(model, ids)]
    # One tensor for each: exported, one that is given twice would be one input.
    inputs = {name: (ids if name == "input_ids" else ones).clone() for name in names}
    axes = {name: {0: BATCH, 1: LENGTH} for name in names}
    return [Graph("model", _Classifier(model, names), inputs, axes, ("logits",))]


class _Classifier(nn.Module):
    def __init__(self, model: PreTrainedModel, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names
        self.options = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.model(**dict(zip(self.names, tensors, strict=True)), **self.options).logits


def _encoder_and_decoder(model: PreTrainedModel, ids: Tensor, ones: Tensor) -> list[Graph]:
    encoder = _Encoder(model)
    both, source = {0: BATCH, 1: LENGTH}, {0: BATCH, 1: SOURCE}
    inputs = {"input_ids": ids, "attention_mask": ones}
    with torch.no_grad():
        hidden = encoder(ids, ones)
    decoded = {"input_ids": ids[:, 1:], "encoder_attention_mask": ones, "encoder_hidden_states": hidden}
    axes = {"input_ids": both, "encoder_attention_mask": source, "encoder_hidden_states": source}
    return [
        Graph("encoder_model", encoder, inputs, dict.fromkeys(inputs, both), ("last_hidden_state",)),
        Graph("decoder_model", _Decoder(model), decoded, axes, ("logits",)),
    ]


class _Encoder(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.get_encoder()

    def forward(self, *tensors: Tensor) -> Tensor:
        input_ids, attention_mask = tensors
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class _Decoder(nn.Module):
    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Tensor) -> Tensor:
        input_ids, encoder_attention_mask, encoder_hidden_states = tensors
        return self.model(
            attention_mask=encoder_attention_mask,
            encoder_outputs=(encoder_hidden_states,),
            decoder_input_ids=input_ids,
            use_cache=False,
        ).logits


def _decoder(model: PreTrainedModel, ids: Tensor) -> Graph:
    module = _CachedDecoder(model)
    inputs = {"input_ids": ids, "attention_mask": torch.ones(EXAMPLES, EARLIER + TOKENS, dtype=torch.long)}
    axes: dict[str, dict[int, str]] = {name: {0: BATCH, 1: LENGTH} for name in inputs}
    axes["attention_mask"][1] = f"{PAST} + {LENGTH}"
    if module.takes_positions:
        inputs["position_ids"] = torch.arange(EARLIER, EARLIER + TOKENS).repeat(EXAMPLES, 1)
        axes["position_ids"] = {0: BATCH, 1: LENGTH}
    outputs = ["logits"]
    for layer, site in module.sites.items():
        if site.num_heads:
            for what in ("key", "value"):
                name = f"past_key_values.{layer}.{what}"
                inputs[name] = torch.zeros(EXAMPLES, site.num_key_value_heads, EARLIER, site.head_dim)
                axes[name] = {0: BATCH, 2: PAST}
                outputs.append(f"present.{layer}.{what}")
    return Graph("model", module, inputs, axes, tuple(outputs))


class _CachedDecoder(nn.Module):
    """A language model that takes and gives keys and values, (B, heads, tokens, d_h), of each layer with heads."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.takes_positions = "position_ids" in inspect.signature(model.forward).parameters
        self.sites: dict[int, Site] = {site.layer: site for site in HeadMap.of(model).sites}

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        input_ids, attention_mask, *others = tensors
        given = iter(others)
        positions = {"position_ids": next(given)} if self.takes_positions else {}
        pairs = {layer: (next(given), next(given)) if site.num_heads else None for layer, site in self.sites.items()}
        cache: Any = DynamicCache()
        earlier = attention_mask.shape[1] - input_ids.shape[1]
        for layer, pair in pairs.items():
            nothing = attention_mask.new_zeros(
                input_ids.shape[0], 0, earlier, self.sites[layer].head_dim, dtype=torch.float32
            )
            cache.update(*(pair or (nothing, nothing)), layer)
            if not pair:  # its length is not seen by the number of its elements
                cache.layers[layer].get_seq_length = partial(_length, cache.layers[layer])
        logits = self.model(
            input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True, **positions
        ).logits
        present = (cache.layers[layer] for layer, site in self.sites.items() if site.num_heads)
        return (logits, *(each for layer in present for each in (layer.keys, layer.values)))


def _length(layer: Any) -> int:
    return layer.keys.shape[2]
