"""Running an attention module that has no head left, also while generating with a cache."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers.cache_utils import Cache, EncoderDecoderCache

from methods.heads.finding.linear import features
from methods.heads.finding.site import Site

LAYER_INDEX = ("layer_idx", "layer_id")  # attributes in which attention modules store their place in the cache
SOURCES = (
    "key_value_states",
    "encoder_hidden_states",
    "kv",
)  # arguments with the sequence that cross attention attends to


def forward_without_heads(self: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
    """The output of attention when no head is left: the output projection's bias, or no contexts for its parent."""
    site: Site = self.site_without_heads
    names = list(inspect.signature(type(self).forward).parameters)[1:]
    given = dict(zip(names, args, strict=False)) | kwargs
    hidden_states = given[names[0]]  # (B, T, d)
    if all(given.get(name) is None for name in SOURCES):
        for cache in _caches(args, kwargs)[:1]:  # of self-attention
            nothing = hidden_states.new_zeros(len(hidden_states), 0, hidden_states.shape[1], site.head_dim)
            cache.update(nothing, nothing, next(getattr(self, name) for name in LAYER_INDEX if hasattr(self, name)))
    if site.layout.output.startswith("../"):
        return hidden_states.new_zeros(*hidden_states.shape[:-1], 0), None
    output = self.get_submodule(site.layout.output)
    shape = hidden_states.shape[:-1]
    if isinstance(output, nn.Linear):
        result = output(hidden_states.new_zeros(*shape, 0))  # run, as somebody may watch it
    else:  # Conv1D, which cannot reshape what has no entries
        result = hidden_states.new_zeros(*shape, features(output)[1]) + output.bias
    after = getattr(self, site.layout.after) if site.layout.after and hasattr(self, site.layout.after) else None
    result = after(result) if after else result
    if "residual" in given:  # Bloom adds the residual inside its attention
        result = given["residual"] + F.dropout(result, self.hidden_dropout, self.training)
    return result, None


def count_cached_tokens(module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
    """Hook that makes a cache count the tokens of layers without heads, of which it stores nothing.

    Generation reads positions and the size of masks from some layer of the cache, often the first. A layer that grows
    with its tokens takes an empty store for one that has seen none.
    """
    layers: list[Any] = [layer for cache in _caches(args, kwargs) for layer in cache.layers]
    for layer in layers:
        if _tokens(layer) and not layer.get_seq_length():
            layer.get_seq_length = partial(_tokens, layer)


def _tokens(layer: Any) -> int:
    """Number of tokens that a cache layer without heads has seen; 0 for one with heads."""
    keys = getattr(layer, "keys", None)  # (B, H, T, d_h)
    return keys.shape[2] if keys is not None and keys.dim() == 4 and not keys.shape[1] else 0


def _caches(args: tuple, kwargs: dict[str, Any]) -> list[Cache]:
    """The caches among a module's arguments, that of self-attention first."""
    found: list[Cache] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, EncoderDecoderCache):
            found += [value.self_attention_cache, value.cross_attention_cache]
        elif isinstance(value, Cache):
            found.append(value)
    return found
