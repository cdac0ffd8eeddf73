"""Random removal: what a score has to beat."""

from typing import Annotated, Literal

import torch
from torch import Tensor

from methods.contract.options import AtLeast, AtMost
from methods.contract.registry import scorer
from methods.contract.schedule import Importance
from methods.contract.view import View
from methods.heads import find_mlps


@scorer("random", source="control", control=True)
def random(
    view: View,
    *,
    draws: Annotated[int, "independent removal orders", AtLeast(1), AtMost(10_000)] = 10,
    parts: Annotated[Literal["both", "heads", "neurons"], "what is ranked, and removed"] = "heads",
) -> Tensor | Importance:
    """Importances drawn uniformly, a removal order for each draw.

    Heads are drawn first, and are the same whether neurons are removed with them or not. Returns (draws, units) where
    heads alone are ranked, else an Importance.
    """
    units = torch.rand(draws, len(view.heads), generator=view.generator)
    if parts == "heads":
        return units
    neurons = {mlp.name: torch.rand(draws, mlp.width, generator=view.generator) for mlp in find_mlps(view.model)}
    return Importance(None if parts == "neurons" else units, neurons)
