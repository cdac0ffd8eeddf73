"""A position bias within blocks of tokens that one layer computes for all heads and hands on to the others (LongT5).

What the first layer hands on already holds the mask, and for one number of heads only. So each layer computes its own
bias instead, from the embeddings of the first one, which keep all heads.
"""

from __future__ import annotations

import inspect
from types import MethodType
from typing import Any

import torch
from torch import nn

from methods.heads.finding.site import Site
from methods.heads.mechanisms.mechanism import Mechanism

TABLE = "relative_attention_bias"  # which only the first layer has


class BlockBias(Mechanism):
    """Makes the module compute the bias of its own heads, whatever it is given."""

    at_every_site = True  # what it is given has the width of another number of heads

    def applies(self, site: Site) -> bool:
        return bool(site.layout.block_bias)

    def adjust(self, model: nn.Module, site: Site, kept: list[int]) -> None:
        module: Any = model.get_submodule(site.name)
        if hasattr(module, "source_of_bias"):
            return  # done at an earlier removal
        same = (each for each in model.modules() if type(each) is type(module))
        module.source_of_bias = (next(each for each in same if TABLE in each._modules),)  # a tuple is no submodule
        module.has_relative_attention_bias = True
        module.compute_bias = MethodType(_compute_bias, module)
        module.register_forward_pre_hook(_drop_bias, with_kwargs=True)


def _compute_bias(self: Any, *args: Any) -> torch.Tensor:
    """The bias within blocks, (1, 1, heads, block, 3 * block)."""
    (source,) = self.source_of_bias
    return type(source).compute_bias(source, *args)[:, :, self.kept_heads]


def _drop_bias(module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
    bound.arguments["position_bias"] = None
    return bound.args[1:], bound.kwargs
