"""Doing once for a view what a selector, which is asked for one budget after another, needs for each."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from methods.contract.view import View

Result = TypeVar("Result")


def once(function: Callable[[View], Result]) -> Callable[[View], Result]:
    """``function``, which draws nothing at random, with its result for the last view remembered while that exists."""
    last: list[tuple[weakref.ref[View], Result]] = []

    @wraps(function)
    def remembered(view: View) -> Result:
        if not last or last[0][0]() is not view:
            last[:] = [(weakref.ref(view, lambda _: last.clear()), function(view))]
        return last[0][1]

    return remembered
