"""Multiplying neurons by gates, without changing the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from methods.heads.finding.mlps import check_names, find_mlps


@contextmanager
def gated_neurons(model: nn.Module, gates: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Inside, multiply each neuron by its gate, just before the down projection.

    gates: by name of the feed-forward layer, float or bool (width,), for every layer. 1 keeps, 0 removes. May require
        grad.

    Contexts nest, also with ``gated``: gates multiply. The activations keep their dtype.

    Raises ValueError for an unknown or missing layer, or for gates of another shape or dtype.
    """
    mlps = find_mlps(model)
    check_names(mlps, gates, "gates")
    for mlp in mlps:
        gate = gates[mlp.name]
        if gate.shape != (mlp.width,) or not (gate.is_floating_point() or gate.dtype == torch.bool):
            raise ValueError(
                f"gates of {mlp.name} must be float or bool of shape ({mlp.width},), "
                f"not {gate.dtype} of shape {tuple(gate.shape)}"
            )
    with ExitStack() as hooks:
        for mlp in mlps:
            hook = model.get_submodule(mlp.output).register_forward_pre_hook(_multiply(gates[mlp.name]))
            hooks.callback(hook.remove)
        yield


def _multiply(gate: torch.Tensor) -> Callable:
    def hook(module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (args[0] * gate.to(args[0].device, args[0].dtype), *args[1:])  # (..., width)

    return hook
