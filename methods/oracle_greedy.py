"""Leave-one-out losses: what each head is worth to the model as it is now, by removing it."""

from typing import Annotated

import torch
from torch import Tensor

from methods.contract.options import AtLeast
from methods.contract.registry import scorer
from methods.contract.view import View
from methods.heads.incremental import group_by_length, restarting


@scorer("leave-one-out", source="control", control=True, variants={"oracle-greedy": {"recompute": 1}})
def leave_one_out(
    view: View, *, tokens: Annotated[int, "most tokens in a forward pass that tries several units", AtLeast(1)] = 4096
) -> Tensor:
    """Mean calibration loss without a unit, minus the loss with it.

    Under the greedy schedule of ``oracle-greedy`` this takes about units^2 / 2 evaluations of the calibration set, so
    it is for small models. The units of a layer are left out side by side, each in a copy of the batch, and the layers
    below run once. Returns (units,), 0 for units removed already.
    """
    total = torch.zeros(len(view.heads), dtype=torch.float64)
    with torch.no_grad(), restarting(view.model, view.heads) as restart:
        for group in group_by_length(view.batches, view.model, copies=max(view.heads.shape)):
            loss = group.totals(view.loss(group), 1)
            for site in range(len(view.heads.sites)):
                units = (view.kept & (view.heads.site_of_unit == site)).nonzero().flatten()
                for some in units.split(max(1, tokens // group.tokens)) if len(units) else ():
                    with restart.without(some.tolist()):
                        losses = view.loss(group.repeated(len(some)))  # (copies * B,)
                    total[some] += group.totals(losses, len(some)) - loss
    return total / view.examples
