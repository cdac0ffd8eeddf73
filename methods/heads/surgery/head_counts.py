"""Making an attention module run with the heads it has left."""

from __future__ import annotations

import inspect
from types import MethodType
from typing import Any, cast

import torch
from torch import nn
from transformers import Cache, DynamicLayer, EncoderDecoderCache

from methods.heads.finding.layouts import UnsupportedArchitecture, geometry
from methods.heads.finding.linear import Linear, features, update_features
from methods.heads.finding.site import Site
from methods.heads.finding.verify import reads_head_count


def update_head_counts(model: nn.Module, site: Site, kept: list[int]) -> None:
    """Tell a site, whose weights have been narrowed already, that of its heads only ``kept`` are left."""
    for path in {*site.projections.values(), site.output}:
        update_features(cast(Linear, model.get_submodule(path)))
    module: Any = model.get_submodule(site.name)
    former = kept_heads(module, site)
    module.kept_heads = [former[head] for head in kept]
    groups = {head // site.queries_per_group for head in kept}
    for name, value in geometry(len(kept), len(groups), site.head_dim).items():
        if hasattr(module, name):
            setattr(module, name, value)
    if site.layout.reads_config:
        module.config = SiteConfig(module.config, len(kept))
    if site.layout.position_bias:
        _slice_position_bias(module, site)
    if site.num_heads and not kept:
        if site.layout.needs_heads and reads_head_count(module):
            module.forward = MethodType(_forward_without_heads, module)
            module.site_without_heads = site
        if site.kind == "decoder":
            module.register_forward_hook(_count_cached_tokens, with_kwargs=True)


def check_runs_without_heads(model: nn.Module, site: Site) -> None:
    """Raise UnsupportedArchitecture if the site could not run without any head."""
    module = model.get_submodule(site.name)
    if not reads_head_count(module) or site.layout.position_bias:  # T5 reads it for nothing but that bias
        return
    # A substitute can stand in for a module that does nothing after its output projection but what is known of it.
    parts = {name.partition(".")[0] for name in (*site.layout.paths(), site.layout.after, "attn_dropout")}
    if not site.layout.needs_heads or not {name for name, _ in module.named_children()} <= parts:
        raise UnsupportedArchitecture(f"{type(module).__name__} at {site.name} cannot run without any head: keep one")


class SiteConfig:
    """A model's configuration with one layer's own number of heads. All else is read from the shared one, live."""

    def __init__(self, shared: Any, num_attention_heads: int) -> None:
        self.shared: Any = shared.shared if isinstance(shared, SiteConfig) else shared
        self.num_attention_heads = num_attention_heads

    def __getattr__(self, name: str) -> Any:
        if name == "shared" or name.startswith("__"):  # asked for by copy and pickle before there is a state
            raise AttributeError(name)
        return getattr(self.shared, name)


def kept_heads(module: nn.Module, site: Site) -> list[int]:
    """Those of the query heads that the module was built with which it still has."""
    return cast(list[int], vars(module).get("kept_heads", list(range(site.num_heads))))


def _slice_position_bias(module: Any, site: Site) -> None:
    """Give the site its own heads' part of the position bias, and hand on the whole of it to the next layer."""
    if hasattr(module, "whole_position_bias"):
        return  # done when heads were removed before
    module.whole_position_bias = None
    if site.kind == "cross":
        module.register_forward_pre_hook(_drop_position_bias, with_kwargs=True)
        return
    module.register_forward_pre_hook(_take_position_bias, with_kwargs=True)
    if hasattr(module, "compute_bias"):
        module.compute_bias = MethodType(_compute_bias, module)
        module.register_forward_hook(_return_position_bias)


def _take_position_bias(module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
    whole = bound.arguments.get("position_bias")  # (1 or B, heads, T, S)
    if whole is not None:
        bound.arguments["position_bias"] = whole[:, module.kept_heads]
    if hasattr(module, "compute_bias"):
        module.whole_position_bias = whole
    return bound.args[1:], bound.kwargs


def _compute_bias(self: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """T5's first layer makes the bias for all layers, so from a table with all heads."""
    self.whole_position_bias = type(self).compute_bias(self, *args, **kwargs)
    return self.whole_position_bias[:, self.kept_heads]


def _return_position_bias(module: Any, args: tuple, output: tuple) -> tuple:
    whole, module.whole_position_bias = module.whole_position_bias, None
    return (output[0], whole, *output[2:])


def _drop_position_bias(module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """T5's cross attention has a bias of zeros as wide as an earlier layer: let each layer make its own."""
    return args, {**kwargs, "position_bias": None}


def _forward_without_heads(self: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
    """What attention comes to when no head is left: the output projection's bias."""
    site: Site = self.site_without_heads
    hidden_states = args[0] if args else kwargs["hidden_states"]  # (B, T, d)
    cache = _self_attention_cache(args, kwargs)
    if cache is not None and site.kind == "decoder":
        nothing = hidden_states.new_zeros(len(hidden_states), 0, hidden_states.shape[1], site.head_dim)
        cache.update(nothing, nothing, self.layer_idx)
    output = self.get_submodule(site.layout.output)
    result = hidden_states.new_zeros(*hidden_states.shape[:-1], features(output)[1])
    if output.bias is not None:
        result = result + output.bias
    return self.get_submodule(site.layout.after)(result) if site.layout.after else result, None


class LayerWithoutHeads(DynamicLayer):
    """A cache layer that knows how many tokens it has seen, though it holds nothing of them."""

    def get_seq_length(self) -> int:
        return 0 if self.keys is None else self.keys.shape[-2]


def _count_cached_tokens(module: Any, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
    """Generation takes the next position from the first layer's cache, and an empty cache says 0."""
    cache = _self_attention_cache(args, kwargs)
    if cache is not None and type(cache.layers[module.layer_idx]) is DynamicLayer:
        cache.layers[module.layer_idx].__class__ = LayerWithoutHeads


def _self_attention_cache(args: tuple, kwargs: dict[str, Any]) -> Cache | None:
    cache = next((value for value in (*args, *kwargs.values()) if isinstance(value, Cache | EncoderDecoderCache)), None)
    return cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
