"""Running the one implementation of attention that returns its probabilities."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers.configuration_utils import PretrainedConfig

from methods.heads.finding.site import Site


@contextmanager
def eager_attention(model: nn.Module, sites: Iterable[Site]) -> Iterator[None]:
    """Inside, the model runs eager attention, and the modules of ``sites`` return what they compute with it.

    The outputs are those of the implementation that ran before, but for rounding.
    """
    # The configuration of every module: set_attn_implementation misses some in models composed of two others.
    owned: list[Any] = [vars(module).get("config") for module in model.modules()]
    configs = [config for config in owned if isinstance(config, PretrainedConfig)]
    former = [(config, config._attn_implementation_internal) for config in configs]
    with ExitStack() as stack:
        for site in sites:
            module = model.get_submodule(site.name)
            config: Any = vars(module).get("config")
            if site.layout.in_mask and config._attn_implementation != "eager":
                leave_out = partial(_leave_out, site.layout.in_mask)
                stack.callback(module.register_forward_pre_hook(leave_out, with_kwargs=True).remove)
            if "output_attentions" in inspect.signature(type(module).forward).parameters:
                stack.callback(module.register_forward_pre_hook(_ask_for_attention, with_kwargs=True).remove)
        try:
            for config in configs:
                config._attn_implementation_internal = "eager"
            yield
        finally:
            for config, implementation in former:
                config._attn_implementation_internal = implementation


def _leave_out(names: tuple[str, ...], module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
    """Set to zero what the mask holds, which only eager attention adds once more."""
    bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
    for name in names:
        if isinstance(values := bound.arguments.get(name), torch.Tensor):
            bound.arguments[name] = torch.zeros_like(values)
    return bound.args[1:], bound.kwargs


def _ask_for_attention(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Set ``output_attentions`` of a module that has its own argument for it (MPNet)."""
    bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
    bound.arguments["output_attentions"] = True
    return bound.args[1:], bound.kwargs
