"""Making an attention module run with fewer heads."""

from __future__ import annotations

import inspect
from types import MethodType
from typing import Any, cast

import torch
from torch import nn

from methods.heads.finding.layouts import geometry
from methods.heads.finding.linear import Linear, update_features
from methods.heads.finding.site import Site
from methods.heads.finding.verify import is_replaced
from methods.heads.mechanisms.arguments import slice_arguments
from methods.heads.mechanisms.quarters import split_anywhere
from methods.heads.mechanisms.shared_keys import select_shared
from methods.heads.mechanisms.wide_norms import select_heads
from methods.heads.mechanisms.width_of_input import narrow_input
from methods.heads.surgery.no_heads import count_cached_tokens, forward_without_heads


def update_head_counts(model: nn.Module, site: Site, kept: list[int]) -> None:
    """Adjust a site, whose weights are cut already, to having only the query heads ``kept``."""
    for path in {*site.projections.values(), *site.followers, site.output}:
        update_features(cast(Linear, model.get_submodule(path)))
    module: Any = model.get_submodule(site.name)
    for table in site.tables(module):
        table.embedding_dim = len(kept)
    module.unpruned_heads = unpruned_heads(module, site)
    former = kept_heads(module, site)
    module.kept_heads = [former[head] for head in kept]
    groups = site.groups_of(kept)
    for name, value in geometry(len(kept), len(groups), site.head_dim, site.layout.totals).items():
        if hasattr(module, name):
            setattr(module, name, value)
    if site.layout.reads_config:
        module.config = SiteConfig(module.config, len(kept))
    if site.layout.order == "quarters":
        split_anywhere(module)
    if site.layout.input_width:
        narrow_input(module)
    if site.layout.by_head:
        slice_arguments(module, site.layout.by_head)
    if site.layout.position_bias:
        _slice_position_bias(module, site)
    if site.source and len(groups) < site.num_key_value_heads:
        select_shared(module, site.narrowed(kept).places["key"])
    for role, path in site.norms.items() if len(kept) < site.num_heads else ():
        select_heads(model.get_submodule(path), site.narrowed(kept).places[role], site.widths[role])
    if site.num_heads and not kept:
        if is_replaced(site, module):
            module.forward = MethodType(forward_without_heads, module)
            module.site_without_heads = site
        module.register_forward_hook(count_cached_tokens, with_kwargs=True)


class SiteConfig:
    """A model's configuration with one layer's own number of heads; everything else is read from the shared one."""

    def __init__(self, shared: Any, num_attention_heads: int) -> None:
        self.shared: Any = shared.shared if isinstance(shared, SiteConfig) else shared
        self.num_attention_heads = num_attention_heads

    def __getattr__(self, name: str) -> Any:
        if name == "shared" or name.startswith("__"):  # copy and pickle ask for these before there is a state
            raise AttributeError(name)
        return getattr(self.shared, name)


def kept_heads(module: nn.Module, site: Site) -> list[int]:
    """The query heads that the module still has, numbered as in the unpruned module."""
    return cast(list[int], vars(module).get("kept_heads", list(range(site.num_heads))))


def unpruned_heads(module: nn.Module, site: Site) -> int:
    """The number of query heads that the module had before any was removed."""
    return cast(int, vars(module).get("unpruned_heads", site.num_heads))


def _slice_position_bias(module: Any, site: Site) -> None:
    """Give the site the part of the position bias for its heads, and the next layer all of it."""
    if hasattr(module, "whole_position_bias"):
        return  # done at an earlier removal
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
    """T5's first layer computes the bias for all layers, so its table keeps all heads."""
    self.whole_position_bias = type(self).compute_bias(self, *args, **kwargs)
    return self.whole_position_bias[:, self.kept_heads]


def _return_position_bias(module: Any, args: tuple, output: tuple) -> tuple:
    whole, module.whole_position_bias = module.whole_position_bias, None
    return (output[0], whole, *output[2:])


def _drop_position_bias(module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """T5's cross attention takes a bias of zeros with the heads of an earlier layer: let each layer make its own."""
    return args, {**kwargs, "position_bias": None}
