"""Running an attention module that has no head left, also while generating with a cache."""

from __future__ import annotations

import copy
import inspect
import sys
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import PretrainedConfig
from transformers.cache_utils import Cache, EncoderDecoderCache

from methods.heads.finding.site import Site
from methods.heads.mechanisms.own_config import SiteConfig

WITHOUT_HEADS = "without_heads"  # the name of an attention implementation
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
            none = hidden_states.new_zeros(len(hidden_states), 0, hidden_states.shape[1], site.head_dim)
            cache.update(none, none, next(getattr(self, name) for name in LAYER_INDEX if hasattr(self, name)))
    read = [hidden_states, *(given[name] for name in SOURCES if isinstance(given.get(name), torch.Tensor))]
    # Made from what is read, so that weights before it get a gradient, of zeros.
    nothing = torch.stack([each.sum() for each in read]).sum().expand(*hidden_states.shape[:-1], 0)
    if site.layout.output.startswith("../"):
        return nothing, None
    output = self.get_submodule(site.layout.output)
    # A linear layer is run, as somebody may watch it; Conv1D cannot reshape what has no entries.
    result = output(nothing) if isinstance(output, nn.Linear) else nothing @ output.weight + output.bias
    after = getattr(self, site.layout.after) if site.layout.after and hasattr(self, site.layout.after) else None
    result = after(result) if after else result
    if "residual" in given:  # Bloom adds the residual inside its attention
        result = given["residual"] + F.dropout(result, self.hidden_dropout, self.training)
    return result, None


def attend_without_heads(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, None]:
    """The contexts of no heads, (B, T, 0, d_v), for queries (B, 0, T, d_h) and values (B, 0, S, d_v)."""
    nothing = query.sum() + key.sum() + value.sum()  # so that weights before it get a gradient, of zeros
    batch, _, length, _ = query.shape  # not len(query), which a traced graph would keep as it is
    return nothing.expand(batch, length, 0, value.shape[3]), None


def call_no_kernel(module: Any) -> None:
    """Let a module that has no head left choose ``attend_without_heads``, where transformers let it choose.

    On a GPU, scaled_dot_product_attention of no heads gives None, fails in the backward pass or ends the process. The
    choice is read from the configuration, which all layers share, so the module gets a copy.
    """
    _register()
    config = vars(module).get("config")
    if isinstance(config, PretrainedConfig):
        module.config = copy.copy(config)
        module.config._attn_implementation_internal = WITHOUT_HEADS
    elif isinstance(config, SiteConfig):
        module.config = copy.copy(config)
        module.config._attn_implementation = WITHOUT_HEADS


def _register() -> None:
    from transformers import AttentionInterface  # takes two seconds

    AttentionInterface.register(WITHOUT_HEADS, attend_without_heads)


if "transformers.modeling_utils" in sys.modules:  # as where a pickled model without heads imports what it needs
    _register()


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
