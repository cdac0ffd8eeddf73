"""Reading and replacing the weights of an output projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from methods.heads.finding.linear import Linear, transposed


@dataclass(frozen=True)
class Projection:
    """The weights of an output projection in float64: y = x W + b.

    weight: W, (inputs, d). bias: b, (d,); None where the layer has none.
    """

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, module: nn.Module) -> Projection:
        """Those of a linear layer."""
        bias = cast(Linear, module).bias
        return cls(transposed(module).detach().double(), None if bias is None else bias.detach().double())

    @property
    def offset(self) -> Tensor:
        """What it gives for an input of zeros, (d,)."""
        return self.weight.new_zeros(self.weight.shape[1]) if self.bias is None else self.bias

    def rounded(self, dtype: torch.dtype) -> Projection:
        """The weights that a layer of ``dtype`` can hold."""
        return Projection(self.weight.to(dtype).double(), None if self.bias is None else self.bias.to(dtype).double())

    def write(self, module: nn.Module, inputs: Tensor | None = None) -> None:
        """Give ``module`` these weights: new parameters for what changes, and a bias if it had none and needs one.

        inputs: the inputs that ``weight`` is for, LongTensor; other weights stay. None: all of them.
        """
        linear = cast(Linear, module)
        old, trained = Projection.of(linear), linear.weight.requires_grad
        inputs = torch.arange(len(old.weight)) if inputs is None else inputs
        inputs, new = inputs.to(old.weight.device), self.weight.to(old.weight.device)
        if not torch.equal(old.weight[inputs], new):
            weight = linear.weight.detach().clone()
            rows = weight.T if isinstance(linear, nn.Linear) else weight  # (inputs, d), the memory of ``weight``
            rows[inputs] = new.to(rows)
            linear.weight = nn.Parameter(weight, requires_grad=trained)
        if self.bias is not None and not torch.equal(old.offset, self.bias):
            linear.bias = nn.Parameter(self.bias.to(linear.weight), requires_grad=trained)
