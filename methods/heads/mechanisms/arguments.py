"""Arguments of attention with an entry for each query head of the unpruned model, such as the biases of ALiBi."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import torch
from torch import nn

from methods.heads.finding.site import Site
from methods.heads.mechanisms.mechanism import Mechanism


class Arguments(Mechanism):
    """Gives the module, of each such argument, the part for the heads that it has kept."""

    def applies(self, site: Site) -> bool:
        return bool(site.layout.by_head)

    def adjust(self, model: nn.Module, site: Site, kept: list[int]) -> None:
        module: Any = model.get_submodule(site.name)
        if not hasattr(module, "sliced_arguments"):  # not done at an earlier removal
            module.sliced_arguments = site.layout.by_head
            module.register_forward_pre_hook(partial(_slice, site.layout.by_head), with_kwargs=True)


def _slice(names: tuple[str, ...], module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
    for name in names:
        if isinstance(values := bound.arguments.get(name), torch.Tensor):
            bound.arguments[name] = of_heads(values, module.kept_heads, module.unpruned_heads)
    return bound.args[1:], bound.kwargs


def of_heads(values: torch.Tensor, kept: list[int], number: int) -> torch.Tensor:
    """The part for the heads ``kept`` of all ``number`` heads: of (B, H, ...), or of (B * H, ...) with three axes.

    A mask for all heads at once, (B, 1, T, S), is returned as it is.
    """
    if values.dim() == 3:
        return values.unflatten(0, (-1, number))[:, kept].flatten(0, 1)
    return values[:, kept] if values.shape[1] == number else values
