"""The unpruned model: what everything else is compared with."""

import torch
from torch import Tensor

from methods.contract.registry import selector
from methods.contract.view import View


@selector("none", source="control", control=True)
def none(view: View, keep: int) -> Tensor:
    """Remove nothing, whatever the budget."""
    return torch.ones(len(view.heads), dtype=torch.bool)
