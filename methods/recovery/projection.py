"""Reading and replacing the weights of an output projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from methods.heads.finding.linear import Linear, transposed


@dataclass(frozen=True)
class Projection:
    """The weights of an output projection in float64: y = x W + b. weight: W, (inputs, d). bias: b, (d,)."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, module: nn.Module) -> Projection:
        """Those of a linear layer; a bias of zeros where it has none."""
        weight, bias = transposed(module).detach().double(), cast(Linear, module).bias
        return cls(weight, weight.new_zeros(weight.shape[1]) if bias is None else bias.detach().double())

    def rounded(self, dtype: torch.dtype) -> Projection:
        """The weights that a layer of ``dtype`` can hold."""
        return Projection(self.weight.to(dtype).double(), self.bias.to(dtype).double())

    def write(self, module: nn.Module, inputs: Tensor | None = None) -> None:
        """Give ``module`` these weights: new parameters for what changes, and a bias if it had none and needs one.

        inputs: the inputs that ``weight`` is for, LongTensor; other weights stay. None: all of them.
        """
        linear = cast(Linear, module)
        old, trained = Projection.of(linear), linear.weight.requires_grad
        inputs = torch.arange(len(old.weight)) if inputs is None else inputs
        inputs = inputs.to(old.weight.device)
        if not torch.equal(old.weight[inputs], self.weight):
            weight = linear.weight.detach().clone()
            rows = weight.T if isinstance(linear, nn.Linear) else weight  # (inputs, d), the memory of ``weight``
            rows[inputs] = self.weight.to(rows)
            linear.weight = nn.Parameter(weight, requires_grad=trained)
        if not torch.equal(old.bias, self.bias):
            linear.bias = nn.Parameter(self.bias.to(linear.weight), requires_grad=trained)
