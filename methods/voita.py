"""Stochastic gates, with a penalty on the number of open ones (Voita et al. 2019)."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import torch
from torch import Tensor, nn

from methods import AtLeast, Trained, View, joint
from methods.contract.trace import Trace
from methods.heads import HeadMap
from methods.training import hard_concrete
from methods.training.gates import Seeds, train_gates
from methods.training.loop import Start, started, training_of
from methods.training.search import search

TOLERANCE = 0.05  # share of the units by which the open gates may miss a budget


@joint("voita", source="Voita et al. 2019")
def voita(
    view: View,
    budgets: Sequence[int],
    *,
    weakest: Annotated[float, "smallest weight of the penalty", AtLeast(1e-12)] = 0.003,
    spread: Annotated[float, "largest weight of the penalty, as a multiple of the smallest", AtLeast(1)] = 300.0,
    weights: Annotated[
        int,
        "number of weights tried first, but no more than most, spaced evenly on a log scale; 1: the smallest alone",
        AtLeast(1),
    ] = 3,
    most: Annotated[int, "most weights tried: more, between the first ones, while a budget is missed", AtLeast(1)] = 6,
    learning_rate: Annotated[float, "initial learning rate of the gates' parameters", AtLeast(0)] = 0.5,
    start: Start = "finetuned",
) -> Iterator[Trained]:
    """Trains hard concrete gates with the model, under a penalty on the expected number of open gates.

        loss = task loss + weight * sum over units of P(gate > 0)

    Each unit has one gate for the whole batch, with a parameter log_a, (units,). No weight fixes the number of open
    gates, so the model is trained once for each of several weights: first for those of a coarse grid, of ``most``
    weights at most, then for weights between two that leave too many and too few gates open, until each budget is met
    within 5 % of the units, or ``most`` weights have been tried, or none lies between. A budget of K takes the training
    that left closest to K gates open (on a tie, the weaker penalty) and keeps the K largest gates. These count as 1
    from then on, as in the comparison by Li, Cotterell & Sachan 2021.

    log_a is initialised uniformly, after Glorot, as in the published code. Li et al. train gates on BERT at a learning
    rate of 0.1 for 36,816 steps, with weights near 0.0015; at 0.1, a hundred steps close hardly any gate.

    ``report``: steps of one training; the weight taken; open, the number of gates it left open, and off_by, how far
    that is from the budget; open_at_W, the number left open by each weight W.

    Source: Voita et al., "Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can Be
    Pruned", ACL 2019.
    """
    if not budgets:
        return
    view = started(view, start)
    steps, units, seeds = training_of(view).steps, len(view.heads), Seeds.draw(view)
    first = min(weights, most)
    grid = [weakest * spread ** (place / max(1, first - 1)) for place in range(first)]
    trained: dict[float, tuple[nn.Module, Tensor, Trace]] = {}  # by weight, those that a budget takes so far
    found: dict[float, int] = {}  # gates open

    def nearest(keep: int) -> tuple[int, float]:
        return min((abs(count - keep), weight) for weight, count in found.items())

    def opened(weight: float) -> int:
        _, log_a, _ = trained[weight] = _train(view, weight, learning_rate, seeds)
        found[weight] = int((hard_concrete.noiseless(log_a) > 0).sum())
        for other in trained.keys() - {nearest(keep)[1] for keep in budgets}:
            del trained[other]
        return found[weight]

    choices = [keep for keep in budgets if 0 < keep < units]  # with none or all kept there is nothing to choose
    search(opened, grid, choices, tolerance=TOLERANCE * units, most=most)
    for keep in budgets:
        off_by, weight = nearest(keep)
        model, log_a, trace = trained[weight]
        report = {"steps": steps, "weight": weight, "open": found[weight], "off_by": off_by}
        report |= {f"open_at_{tried:.3g}": found[tried] for tried in sorted(found)}
        yield Trained(view.heads.best(log_a, keep), model, report, trace=trace)


def _train(view: View, weight: float, learning_rate: float, seeds: Seeds) -> tuple[nn.Module, Tensor, Trace]:
    """The model trained with one weight of the penalty, log_a of its gates, (units,), and the trace."""
    noise = seeds.noise()
    log_a = _initial(view.heads, noise)
    model, trace = train_gates(
        view,
        log_a,
        lambda step: hard_concrete.sample(log_a, noise),
        learning_rate=learning_rate,
        frozen=False,
        seeds=seeds,
        penalty=lambda: weight * hard_concrete.open_probability(log_a).sum(),
    )
    return model, log_a.detach(), trace


def _initial(heads: HeadMap, generator: torch.Generator) -> Tensor:
    """Initial log_a, (units,): uniform within Glorot's bound for a layer, sqrt(3 / heads of the layer)."""
    uniform = torch.empty(len(heads), dtype=torch.float64).uniform_(-1, 1, generator=generator)
    heads_of_layer = torch.tensor(heads.shape)[heads.site_of_unit]  # (units,)
    return (uniform * (3 / heads_of_layer).sqrt()).requires_grad_()
