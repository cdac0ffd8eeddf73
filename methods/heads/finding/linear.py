"""The linear layers of transformers: torch's Linear, and GPT-2's Conv1D, whose weight is transposed."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

# Subclasses of torch's that compute the same, in two steps.
SAME = {"transformers.models.falcon.modeling_falcon.FalconLinear"}

Linear = nn.Linear | Conv1D


def is_linear(module: nn.Module) -> bool:
    """Whether ``module`` is a plain linear layer; a subclass (adapters, quantisation) may compute something else.

    So may one whose weight is made anew for each pass, from other parameters, as by ``torch.nn.utils.prune``.
    """
    kind = type(module)
    plain = kind in (nn.Linear, Conv1D) or f"{kind.__module__}.{kind.__qualname__}" in SAME
    return plain and {"weight", "bias"} <= module._parameters.keys()


def features(linear: Linear) -> tuple[int, int]:
    """Number of inputs and of outputs."""
    inputs, outputs = transposed(linear).shape
    return inputs, outputs


def transposed(linear: nn.Module) -> torch.Tensor:
    """The weight of a linear layer as (inputs, outputs)."""
    weight = cast(torch.Tensor, linear.weight)
    return weight.T if isinstance(linear, nn.Linear) else weight


def select_outputs(linear: Linear, rows: torch.Tensor) -> dict[int, nn.Parameter]:
    """The layer's parameters cut down to the outputs ``rows``, by the id of the parameter that each replaces."""
    outputs = 0 if isinstance(linear, nn.Linear) else 1
    selected = {id(linear.weight): select(linear.weight, outputs, rows)}
    if linear.bias is not None:
        selected[id(linear.bias)] = select(linear.bias, 0, rows)
    return selected


def select_inputs(linear: Linear, columns: torch.Tensor) -> dict[int, nn.Parameter]:
    """The layer's weight cut down to the inputs ``columns``, by the id of the old weight. The bias does not change."""
    inputs = 1 if isinstance(linear, nn.Linear) else 0
    return {id(linear.weight): select(linear.weight, inputs, columns)}


def update_features(linear: Linear) -> None:
    """Set the layer's attributes for its shape to that of its weight."""
    if isinstance(linear, nn.Linear):
        linear.in_features, linear.out_features = features(linear)
    else:
        linear.nx, linear.nf = features(linear)


def select(parameter: torch.Tensor, dim: int, index: torch.Tensor) -> nn.Parameter:
    """The entries ``index`` of a parameter along ``dim``, as a parameter of its own."""
    values = parameter.detach().index_select(dim, index.to(parameter.device))
    return nn.Parameter(values, requires_grad=parameter.requires_grad)
