"""Leave-one-out losses: what each head is worth to the model as it is now, by trying."""

from typing import Annotated

import torch
from torch import Tensor

from methods.contract.options import AtLeast
from methods.contract.registry import scorer
from methods.contract.view import View
from methods.heads import restarting
from methods.heads.incremental.length_groups import Portion


@scorer("leave-one-out", source="control", control=True, variants={"oracle-greedy": {"recompute": 1}})
def leave_one_out(
    view: View, *, tokens: Annotated[int, "most tokens in a forward pass that tries several units", AtLeast(1)] = 4096
) -> Tensor:
    """Mean calibration loss without a unit, minus the loss with it.

    ``oracle-greedy`` removes the unit whose loss is lowest without it, again and again: some units^2 / 2 evaluations of
    the calibration set, so for small models. The units of a site are tried side by side, on copies of the batch, and
    the layers below run once. Returns (units,), 0 for units that are gone already.
    """
    total = torch.zeros(len(view.heads), dtype=torch.float64)
    portions = Portion.by_length(view.batches, view.model, max(view.heads.shape))
    with torch.no_grad(), restarting(view.model, view.heads) as restart:
        for portion in portions:
            loss = view.loss(portion).double().sum().cpu()
            most = max(1, tokens // portion.inputs["input_ids"].numel())
            for site in range(len(view.heads.sites)):
                units = (view.kept & (view.heads.site_of_unit == site)).nonzero().flatten()
                for some in units.split(most) if len(units) else ():
                    with restart.without(some.tolist(), len(portion.labels)):
                        losses = view.loss(portion.repeated(len(some)))  # (copies * R,)
                    total[some] += losses.unflatten(0, (len(some), -1)).double().sum(1).cpu() - loss
    return total / view.examples
