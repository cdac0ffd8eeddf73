"""Random removal, which every score has to beat."""

from dataclasses import replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from methods import AtLeast, AtMost, Importance, View, scorer
from methods.contract.options import one_order_of_heads
from methods.heads import find_mlps


@scorer(
    "random",
    source="control",
    control=True,
    variants={"random-both": {"parts": "both", "allocation": "layer", "draws": 3}},  # the control of amp
    check=one_order_of_heads,
)
def random(
    view: View,
    *,
    draws: Annotated[int, "independent removal orders", AtLeast(1), AtMost(10_000)] = 10,
    parts: Annotated[Literal["both", "heads", "neurons"], "what is ranked and removed"] = "heads",
) -> Tensor | Importance:
    """Uniform random importances, one removal order per draw.

    Heads are drawn first, so that they are the same whether or not neurons are removed with them. Returns (draws,
    units) with ``parts=heads``, otherwise an Importance.
    """
    units = torch.rand(draws, len(view.heads), generator=view.generator)
    if parts == "heads":
        return units
    neurons = {mlp.name: torch.rand(draws, mlp.width, generator=view.generator) for mlp in find_mlps(view.model)}
    return Importance(None if parts == "neurons" else units, neurons)


def random_to_train(view: View, parts: Literal["both", "heads", "neurons"] = "heads") -> Tensor | Importance:
    """One draw for methods that train the remaining weights; it is not a draw of ``random`` under the same seed."""
    return random(replace(view, generator=view.generator_for("random choice before training")), draws=1, parts=parts)
