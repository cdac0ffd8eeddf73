"""Removing neurons of feed-forward layers for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MethodType
from typing import Any, cast

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from methods.heads.finding.layout import UnsupportedArchitecture
from methods.heads.finding.linear import Linear, features, select_inputs, select_outputs, update_features
from methods.heads.finding.mlps import Mlp, check_names, find_mlps
from methods.heads.surgery.remove import replace_parameters


def remove_neurons(
    model: nn.Module, keep: Mapping[str, Sequence[int] | torch.Tensor], *, in_place: bool = False
) -> nn.Module:
    """Remove all neurons but those to keep, and return the smaller model.

    keep: by name of the feed-forward layer, the indices of the neurons that stay, or a BoolTensor (width,), for every
        layer. A layer may lose all its neurons.

    Parameters, hooks and ``in_place`` as in ``remove_heads``. Raises ValueError for an unknown or missing layer, or for
    neurons that a layer does not have, and UnsupportedArchitecture for a layer in which what one neuron gives depends
    on others.
    """
    mlps = find_mlps(model)
    check_names(mlps, keep, "keep")
    kept = {mlp.name: _indices(mlp, keep[mlp.name]) for mlp in mlps}
    narrowed: dict[int, nn.Parameter] = {}
    for mlp in mlps:
        rows = kept[mlp.name]
        if len(rows) < mlp.width and (mixing := _mixing(model.get_submodule(mlp.name), mlp)):
            raise UnsupportedArchitecture(f"{mlp.name} {mixing}: keep every neuron")
        outputs = torch.cat([rows, rows + mlp.width]) if mlp.halves else rows
        for name in mlp.inputs:
            narrowed |= select_outputs(cast(Linear, model.get_submodule(name)), outputs)
        narrowed |= select_inputs(cast(Linear, model.get_submodule(mlp.output)), rows)
    smaller = replace_parameters(model, narrowed, in_place=in_place)
    for mlp in mlps:
        for name in (*mlp.inputs, mlp.output):
            update_features(cast(Linear, smaller.get_submodule(name)))
        module: Any = smaller.get_submodule(mlp.name)
        if hasattr(module, "intermediate_size"):
            module.intermediate_size = len(kept[mlp.name])
        output: Any = smaller.get_submodule(mlp.output)
        if not isinstance(output, nn.Linear) and not len(kept[mlp.name]):
            output.forward = MethodType(_forward_without_inputs, output)
    return smaller


def _mixing(holder: nn.Module, mlp: Mlp) -> str:
    """How what one neuron gives depends on others; empty where it does not.

    A norm over the neurons cannot be told by its width from one over hidden states where both are as wide.
    """
    if getattr(holder, "activation_sparsity", False):
        return "compares each neuron with the mean of all"
    output = cast(Linear, holder.get_submodule(mlp.output.removeprefix(f"{mlp.name}.")))
    if features(output)[1] == mlp.width:
        return ""
    over = [name for name, each in holder.named_children() if [*_shapes(each)] == [(mlp.width,)]]
    return f"has a norm over all neurons ({over[0]})" if over else ""


def _shapes(module: nn.Module) -> set[tuple[int, ...]]:
    return {tuple(parameter.shape) for parameter in module.parameters()}


def _forward_without_inputs(self: Conv1D, x: torch.Tensor) -> torch.Tensor:
    """As Conv1D, but without its ``view``, which is ambiguous without inputs: the bias, (..., d)."""
    return x @ self.weight + self.bias


def _indices(mlp: Mlp, keep: Sequence[int] | torch.Tensor) -> torch.Tensor:
    """Ascending LongTensor of the neurons to keep."""
    chosen = torch.as_tensor(keep)
    if chosen.dtype == torch.bool:
        if chosen.shape != (mlp.width,):
            raise ValueError(f"a mask of {mlp.name} must have shape ({mlp.width},), not {tuple(chosen.shape)}")
        return chosen.nonzero().flatten().cpu()
    indices = chosen.long().unique()
    if indices.numel() != chosen.numel() or (indices.numel() and not 0 <= indices[0] <= indices[-1] < mlp.width):
        raise ValueError(f"neurons to keep in {mlp.name} must be distinct, from 0 to {mlp.width - 1}")
    return indices.cpu()
