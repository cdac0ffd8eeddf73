"""Ask a method what to keep, and recover the weights of that if the option ``recover`` says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from methods.contract import choosing
from methods.contract.choice import Choice
from methods.contract.choosing import Draw, Selection
from methods.contract.method import RECOVER, Method
from methods.contract.registry import Kept
from methods.contract.view import View
from methods.recovery.recover import How, recover


def choose(method: Method, options: Mapping[str, Any], view: View, removed: Sequence[int]) -> Iterator[Draw]:
    """As ``methods.contract.choosing.choose``; choices that lack something then have recovered weights.

    Their report counts the attention modules with new weights (``recovered``), and those that were tried and keep the
    old ones (``unchanged``). A selector that removes neurons too may keep any number of units. Raises as that and
    ``recover`` do.
    """
    own = {name: value for name, value in options.items() if name != RECOVER.name}
    how: How | None = options.get(RECOVER.name)
    ask = _with_neurons if method.splits_budget(own) else choosing.choose
    for draw in ask(method, own, view, removed):
        yield (
            draw
            if how is None
            else dataclasses.replace(draw, choices=_recovered(draw.choices, view, how), nested=False)
        )


def select(method: Method, options: Mapping[str, Any], view: View, removed: Sequence[int]) -> Selection:
    """All choices of ``choose``. Raises as that does."""
    return Selection.of(choose(method, options, view, removed))


def _with_neurons(method: Method, own: Mapping[str, Any], view: View, removed: Sequence[int]) -> Iterator[Draw]:
    """The choices of a selector that returns a Kept for each budget."""
    neurons: list[Mapping[str, Tensor]] = []

    def mask_of(view: View, keep: int, **own: Any) -> Tensor:
        kept = method.function(view, keep, **own)
        if not isinstance(kept, Kept):
            raise ValueError(f"returned a {type(kept).__name__}, expected a Kept")
        neurons.append(choosing.checked_neurons(kept.neurons, view.model))
        return kept.mask

    # Only of a control is the number of units not checked.
    asked = dataclasses.replace(method, function=mask_of, control=True, neurons={})
    for draw in choosing.choose(asked, own, view, removed):
        choices = (
            (count, dataclasses.replace(choice, neurons=left))
            for (count, choice), left in zip(draw.choices, neurons, strict=True)
        )
        yield dataclasses.replace(draw, choices=choices, nested=False)


def _recovered(choices: Iterator[tuple[int, Choice]], view: View, how: How) -> Iterator[tuple[int, Choice]]:
    for count, choice in choices:
        yield count, _one(choice, view, how)


def _one(choice: Choice, view: View, how: How) -> Choice:
    if not choice.removed and all(bool(mask.all()) for mask in (choice.neurons or {}).values()):
        return choice
    found = recover(view, choice, how)
    report = {**choice.report, "recovered": found.recovered, "unchanged": found.unchanged}
    return dataclasses.replace(found.choice, report=report)
