"""Ask a method what to keep, and recover the weights of that if the option ``recover`` says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from methods.contract import choosing
from methods.contract.choice import Choice
from methods.contract.choosing import Draw, Selection
from methods.contract.registry import RECOVER, Method
from methods.contract.view import View
from methods.recovery.recover import How, recover


def choose(method: Method, options: Mapping[str, Any], view: View, removed: Sequence[int]) -> Iterator[Draw]:
    """As ``methods.contract.choosing.choose``; choices that lack something then have recovered weights.

    Their report counts the attention modules with new weights (``recovered``), and those that were tried and keep the
    old ones (``unchanged``). Raises as that and ``recover`` do.
    """
    own, how = _split(options)
    for draw in choosing.choose(method, own, view, removed):
        yield (
            draw
            if how is None
            else dataclasses.replace(draw, choices=_recovered(draw.choices, view, how), nested=False)
        )


def select(method: Method, options: Mapping[str, Any], view: View, removed: Sequence[int]) -> Selection:
    """All choices of ``choose``. Raises as that does."""
    own, how = _split(options)
    selection = choosing.select(method, own, view, removed)
    if how is None:
        return selection
    choices = [[_one(choice, view, how) for choice in draw] for draw in selection.choices]
    return dataclasses.replace(selection, choices=choices)


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], How | None]:
    """The method's own options, and how to recover."""
    return {name: value for name, value in options.items() if name != RECOVER.name}, options.get(RECOVER.name)


def _recovered(choices: Iterator[tuple[int, Choice]], view: View, how: How) -> Iterator[tuple[int, Choice]]:
    for count, choice in choices:
        yield count, _one(choice, view, how)


def _one(choice: Choice, view: View, how: How) -> Choice:
    if not choice.removed and all(bool(mask.all()) for mask in (choice.neurons or {}).values()):
        return choice
    found = recover(view, choice, how)
    report = {**choice.report, "recovered": found.recovered, "unchanged": found.unchanged}
    return dataclasses.replace(found.choice, report=report)
