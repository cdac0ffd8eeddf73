"""Stochastic gates, with a penalty on the number of open ones (Voita et al. 2019)."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import torch
from torch import Tensor, nn

from methods import AtLeast, Trained, View, joint
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
    spread: Annotated[float, "largest weight of the penalty, as a multiple of the smallest", AtLeast(1)] = 100.0,
    weights: Annotated[int, "number of weights tried, spaced evenly on a log scale", AtLeast(1)] = 5,
    learning_rate: Annotated[float, "initial learning rate of the gates' parameters", AtLeast(0)] = 0.5,
) -> Iterator[Trained]:
    """Trains hard concrete gates with the model, under a penalty on the expected number of open gates.

        loss = task loss + weight * sum over units of P(gate > 0)

    Each unit has one gate for the whole batch, with a parameter log_a, (units,). No weight fixes the number of open
    gates, so the model is trained once for each weight; a budget of K takes the training that left closest to K gates
    open (on a tie, the weaker penalty) and keeps the K largest gates. These count as 1 from then on, as in
    the comparison by Li, Cotterell & Sachan 2021.

    log_a is initialised uniformly, after Glorot, as in the published code. Li et al. train gates on BERT at a learning
    rate of 0.1 for 36,816 steps, with weights near 0.0015; at 0.1, a hundred steps close hardly any gate.

    ``report``: steps of one training; the weight taken; open, the number of gates it left open; open_at_W, the number
    left open by each weight W.

    Source: Voita et al., "Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can Be
    Pruned", ACL 2019.
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
    """The model trained with one weight of the penalty, and log_a of its gates, (units,)."""
    noise = seeds.noise()
    log_a = _initial(view.heads, noise)
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


def _initial(heads: HeadMap, generator: torch.Generator) -> Tensor:
    """Initial log_a, (units,): uniform within Glorot's bound for a layer, sqrt(3 / heads of the layer)."""
    uniform = torch.empty(len(heads), dtype=torch.float64).uniform_(-1, 1, generator=generator)
    heads_of_layer = torch.tensor(heads.shape)[heads.site_of_unit]  # (units,)
    return (uniform * (3 / heads_of_layer).sqrt()).requires_grad_()
