"""Options of methods: types and bounds, declared by annotations and checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def plain(value: object) -> str:
    """The value of an option as the command line takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class OptionError(ValueError):
    """An unknown option, or a value that is not valid for an option."""


def one_order_of_heads(options: Mapping[str, Any]) -> None:
    """Refuse, of a scorer with ``draws`` or ``parts``, a greedy schedule of several draws or of neurons.

    Raises OptionError.
    """
    if not options["recompute"]:
        return
    if (draws := options.get("draws", 1)) > 1:
        raise OptionError(f"a greedy schedule needs one draw, not {draws}: use draws=1")
    if options.get("parts", "heads") != "heads":
        raise OptionError("a greedy schedule removes heads only: use parts=heads, or recompute=0")


@dataclass(frozen=True)
class AtLeast:
    """Lower bound of a number, in its annotation: ``Annotated[int, "what it means", AtLeast(1)]``."""

    lowest: float


@dataclass(frozen=True)
class AtMost:
    """Upper bound of a number, in its annotation."""

    highest: float


@dataclass(frozen=True)
class Option:
    """One option of a method: type, default, meaning, and bounds if it has any."""

    name: str
    type: Any
    default: Any
    help: str
    lowest: float | None = None
    highest: float | None = None

    @classmethod
    def of(cls, name: str, hint: Any, default: Any) -> Option:
        """The option declared by ``Annotated[type, "what it means"]``, optionally with AtLeast and AtMost.

        Raises TypeError for another annotation, OptionError for a default that is not valid.
        """
        kind, text, *rest = get_args(hint) if get_origin(hint) is Annotated else (None, "")
        if kind not in WORDS and get_origin(kind) is not Literal:
            raise TypeError(
                f"option {name}: annotate it as Annotated[bool, int, float, str or Literal, 'what it means']"
            )
        lowest = next((bound.lowest for bound in rest if isinstance(bound, AtLeast)), None)
        highest = next((bound.highest for bound in rest if isinstance(bound, AtMost)), None)
        option = cls(name, kind, default, text, lowest, highest)
        option.parse(default)
        return option

    def parse(self, value: Any) -> Any:
        """Convert ``value``, a string from the command line or a value from a file, to the type of this option.

        Raises OptionError if it is not valid.
        """
        if get_origin(self.type) is Literal:
            choices = {plain(choice): choice for choice in get_args(self.type)}
            if plain(value) in choices:
                return choices[plain(value)]
            raise OptionError(f"option {self.name}={value}: expected one of {', '.join(choices)}")
        try:
            parsed = self._convert(value)
            within = (self.lowest is None or parsed >= self.lowest) and (self.highest is None or parsed <= self.highest)
        except (KeyError, OverflowError, TypeError, ValueError):
            within = False
        if not within:
            bound = "" if self.lowest is None else f", at least {self.lowest}"
            bound += "" if self.highest is None else f", at most {self.highest}"
            raise OptionError(f"option {self.name}={value}: expected {WORDS[self.type]}{bound}")
        return parsed

    def _convert(self, value: Any) -> Any:
        if self.type is bool:
            return {"true": True, "false": False}[str(value).lower()]
        number = self.type(value)
        if self.type is not str and (isinstance(value, bool) or not math.isfinite(number)):
            raise ValueError
        if self.type is int and isinstance(value, float) and number != value:
            raise ValueError
        return number
