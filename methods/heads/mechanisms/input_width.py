"""Modules that shape their contexts by the width of their input: with fewer heads they must see a narrower one.

Longformer's does, and multiplies the input by its projections as well, so only what it reads of the width changes.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from methods.heads.finding.site import Site
from methods.heads.mechanisms.mechanism import Mechanism


class InputWidth(Mechanism):
    """Lets the module take its first argument for as wide as its attribute ``embed_dim``."""

    def applies(self, site: Site) -> bool:
        return site.layout.input_width

    def adjust(self, model: nn.Module, site: Site, kept: list[int]) -> None:
        module: Any = model.get_submodule(site.name)
        if not hasattr(module, "input_is_narrowed"):  # not done at an earlier removal
            module.input_is_narrowed = True
            module.register_forward_pre_hook(_narrow, with_kwargs=True)


def _narrow(module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
    if not module.embed_dim:  # another forward runs in the module's place
        return None
    bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
    name = list(bound.signature.parameters)[1]
    bound.arguments[name] = _Narrowed.of(bound.arguments[name], module.embed_dim)
    return bound.args[1:], bound.kwargs


class _Narrowed(torch.Tensor):
    """A tensor, (..., d), that gives ``size`` with another width; all else is done with the tensor itself."""

    width: int

    @staticmethod
    def of(values: torch.Tensor, width: int) -> _Narrowed:
        narrowed = values.as_subclass(_Narrowed)
        narrowed.width = width
        return narrowed

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            if func is torch.Tensor.transpose:
                return cls.of(result, args[0].width)
            if func is torch.Tensor.size and len(args) == 1:
                return torch.Size((*result[:-1], args[0].width))
            if func is torch.Tensor.new_zeros:  # to be filled with rows of the tensor itself
                return result.new_zeros((*result.shape[:-1], args[0].shape[-1]))
        return result
