"""Heads chosen without training, then the weights trained: what a joint method has to beat."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from methods.contract.registry import Trained, joint
from methods.contract.schedule import Schedule, trajectories
from methods.contract.view import View
from methods.michel import michel
from methods.random import random
from methods.training.gates import Seeds, train_gates
from methods.training.loop import training_of

CHOICES = {"michel": michel, "random": lambda view: random(view, draws=1)}


@joint("michel-retrained", source="control", control=True, variants={"random-retrained": {"choice": "random"}})
def retrained(
    view: View,
    budgets: Sequence[int],
    *,
    choice: Annotated[Literal["michel", "random"], "what chooses the heads, before any training"] = "michel",
) -> Iterator[Trained]:
    """Train the weights, as long as a joint method may, around heads that were chosen once and for all.

    A joint method is ahead of a scorer because its weights adapt to the heads that are left, or because it chooses
    better. This control adapts the weights on the same batches and chooses as a scorer does: the difference is what the
    joint choice is worth. ``random`` takes one removal order.
    """
    (path,) = trajectories(CHOICES[choice], view, Schedule())
    units = len(view.heads)
    seeds = Seeds.draw(view)

    def train(keep: int) -> Trained:
        mask = path.units_kept(units - keep, units)
        model = train_gates(view, None, lambda step: mask, learning_rate=0.0, frozen=False, seeds=seeds)
        return Trained(mask, model, {"steps": training_of(view).steps})

    return map(train, budgets)
