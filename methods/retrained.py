"""Heads chosen without training, then weights trained: the control for joint methods."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from methods import Trained, View, joint
from methods.contract.schedule import Schedule, trajectories
from methods.michel import michel
from methods.random import random_to_train
from methods.training.gates import Seeds
from methods.training.loop import Start, started, training_of
from methods.training.smaller import train_remaining

SCORERS = {"michel": michel, "random": random_to_train}


@joint("michel-retrained", source="control", control=True, variants={"random-retrained": {"choice": "random"}})
def retrained(
    view: View,
    budgets: Sequence[int],
    *,
    choice: Annotated[Literal["michel", "random"], "what chooses the heads, before any training"] = "michel",
    start: Start = "finetuned",
) -> Iterator[Trained]:
    """Removes heads by a score, then trains the remaining weights as long as a joint method may.

    A joint method can beat a scorer because its weights adapt to the heads that are left, or because it chooses better
    heads. This control adapts the weights on the same batches and chooses as a scorer does, so the difference between
    them is what choosing jointly is worth. ``choice=random`` follows one removal order, none of those of the method
    ``random``. The heads are chosen by the scores of the task's model, also where training starts from the model before
    its own training.
    """
    (path,) = trajectories(SCORERS[choice], view, Schedule(layer_norm=choice == "michel"))
    units = len(view.heads)
    seeds = Seeds.draw(view)
    view = started(view, start)

    def train(keep: int) -> Trained:
        mask = path.units_kept(units - keep, units)
        model, trace = train_remaining(view, mask, seeds.dropout)
        return Trained(mask, model, {"steps": training_of(view).steps}, trace=trace)

    return map(train, budgets)
