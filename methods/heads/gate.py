"""Multiplying heads by gates, without changing the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from methods.heads.head_map import HeadMap


@contextmanager
def gated(model: nn.Module, gates: torch.Tensor, heads: HeadMap | None = None) -> Iterator[None]:
    """Inside, multiply each head's context by its unit's gate, just before the output projection.

    gates: float or bool, (units,) or, for a gate per example, (units, batch). 1 keeps, 0 removes. May require grad.
    Contexts nest: gates multiply. The activations keep their dtype.

    Raises ValueError for another shape, or for gates per example that do not fit the batch.
    """
    if heads is None:
        heads = HeadMap.of(model)
    else:
        heads.check_model(model)
    if gates.dim() not in (1, 2) or gates.shape[0] != len(heads):
        raise ValueError(f"gates have shape ({len(heads)},) or ({len(heads)}, batch), not {tuple(gates.shape)}")
    if not (gates.is_floating_point() or gates.dtype == torch.bool):
        raise ValueError(f"gates are float or bool, not {gates.dtype}")
    with ExitStack() as hooks:
        for index, site in enumerate(heads.sites):
            if not site.num_heads:
                continue
            of_site = gates[heads.unit_of_head(index).to(gates.device)]  # (H,) or (H, B)
            hook = model.get_submodule(site.output).register_forward_pre_hook(_multiply(of_site, site.head_dim))
            hooks.callback(hook.remove)
        yield


def _multiply(gates: torch.Tensor, head_dim: int) -> Callable:
    def hook(module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        context = args[0]  # (B, T, H * d_h)
        if gates.dim() == 2 and gates.shape[1] != context.shape[0]:
            raise ValueError(f"gates are for a batch of {gates.shape[1]} examples, the batch has {context.shape[0]}")
        factors = gates.to(context.device, context.dtype)
        factors = factors[None, None, :, None] if gates.dim() == 1 else factors.T[:, None, :, None]  # (1|B, 1, H, 1)
        return ((context.unflatten(-1, (len(gates), head_dim)) * factors).flatten(-2), *args[1:])

    return hook
