"""Stochastic gates, with a penalty on the number of open ones (Voita et al. 2019).

"Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can Be Pruned", ACL 2019.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

import torch
from torch import Tensor, nn

from methods.contract.options import AtLeast
from methods.contract.registry import Trained, joint
from methods.contract.view import View
from methods.heads import HeadMap
from methods.training import hard_concrete
from methods.training.gates import Seeds, train_gates
from methods.training.loop import training_of
from methods.training.top_k import hard_top_k


@joint("voita", source="Voita et al. 2019")
def voita(
    view: View,
    budgets: Sequence[int],
    *,
    weakest: Annotated[float, "smallest weight of the penalty", AtLeast(1e-12)] = 0.003,
    spread: Annotated[float, "largest weight of the penalty, in units of the smallest", AtLeast(1)] = 100.0,
    weights: Annotated[int, "weights of the penalty tried, evenly spaced in their logarithm", AtLeast(1)] = 5,
    learning_rate: Annotated[float, "of the gates' parameters, at the first step", AtLeast(0)] = 0.5,
) -> Iterator[Trained]:
    """Hard concrete gates trained together with the model, under a penalty on the expected number of open gates.

    The loss is the task's plus ``weight * sum of P(open)``; each unit has one gate for the whole batch. No weight fixes
    the number of open gates, so the model is trained once under each weight; a budget of K takes the training that left
    nearest to K gates open (on a tie, the weaker penalty) and keeps the K largest gates. Those kept count as 1 from
    then on, as where Li, Cotterell & Sachan 2021 compare the method.

    log_a starts uniform, after Glorot, as in the published code. Li et al. train gates on BERT at a learning rate of
    0.1 in 36,816 steps, with weights near 0.0015; at 0.1, a hundred steps close hardly any gate.

    ``report``: steps, of one training; weight, the one taken; open, the gates it left open; and open_at_..., those left
    open by each weight.
    """
    steps = training_of(view).steps
    seeds = Seeds.draw(view)
    tried = [weakest * spread ** (place / max(1, weights - 1)) for place in range(weights)]
    if not budgets:
        return
    found = [_train(view, weight, learning_rate, seeds) for weight in tried]
    opened = [int((hard_concrete.noiseless(log_a) > 0).sum()) for _, log_a in found]
    for keep in budgets:
        place = min(range(weights), key=lambda place: abs(opened[place] - keep))
        model, log_a = found[place]
        report = {"steps": steps, "weight": tried[place], "open": opened[place]}
        report |= {f"open_at_{weight:.3g}": count for weight, count in zip(tried, opened, strict=True)}
        yield Trained(hard_top_k(log_a, keep), model, report)


def _train(view: View, weight: float, learning_rate: float, seeds: Seeds) -> tuple[nn.Module, Tensor]:
    """The model trained under one weight of the penalty, and log_a, (units,), of its gates."""
    noise = seeds.noise()
    log_a = _first(view.heads, noise)
    model = train_gates(
        view,
        log_a,
        lambda step: hard_concrete.sample(log_a, noise),
        learning_rate=learning_rate,
        frozen=False,
        seeds=seeds,
        penalty=lambda: weight * hard_concrete.open_probability(log_a).sum(),
    )
    return model, log_a.detach()


def _first(heads: HeadMap, generator: torch.Generator) -> Tensor:
    """log_a at the first step, (units,): uniform within sqrt(3 / heads of the layer), Glorot's bound for a layer."""
    uniform = torch.empty(len(heads), dtype=torch.float64).uniform_(-1, 1, generator=generator)
    of_layer = torch.tensor(heads.shape)[heads.site_of_unit]  # (units,)
    return (uniform * (3 / of_layer).sqrt()).requires_grad_()
