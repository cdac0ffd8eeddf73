"""Random removal: what a score has to beat."""

from typing import Annotated

import torch
from torch import Tensor

from methods.options import AtLeast
from methods.registry import scorer
from methods.view import View


@scorer("random", source="control", control=True)
def random(view: View, *, draws: Annotated[int, "independent removal orders", AtLeast(1)] = 10) -> Tensor:
    """Importances drawn uniformly, a removal order for each draw. Returns (draws, units)."""
    return torch.rand(draws, len(view.heads), generator=view.generator)
