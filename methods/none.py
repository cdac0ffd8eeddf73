"""The unpruned model, with which all others are compared."""

import torch
from torch import Tensor

from methods import View, selector


@selector("none", source="control", control=True)
def none(view: View, keep: int) -> Tensor:
    """Removes nothing, whatever the budget. Returns a mask, (units,) bool."""
    return torch.ones(len(view.heads), dtype=torch.bool)
