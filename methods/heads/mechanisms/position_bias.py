"""A position bias that one layer computes for all heads of the unpruned model and hands on to the others (T5)."""

from __future__ import annotations

import inspect
from types import MethodType
from typing import Any

import torch
from torch import nn

from methods.heads.finding.site import Site
from methods.heads.mechanisms.mechanism import Mechanism


class PositionBias(Mechanism):
    """Gives the site the part of the position bias for its heads, and the next layer all of it."""

    at_every_site = True  # what it is given has the width of another number of heads

    def applies(self, site: Site) -> bool:
        return site.layout.position_bias

    def adjust(self, model: nn.Module, site: Site, kept: list[int]) -> None:
        module: Any = model.get_submodule(site.name)
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
