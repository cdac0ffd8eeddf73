"""Methods, seeds and levels as people write them, on the command line and in suite files."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bench.records.errors import InputError
from bench.suites.plugins import unregistered
from bench.suites.shares import fraction
from methods import METHODS, OptionError

MOST_SEEDS = 1000  # a larger number is taken to be a seed, not a number of seeds


@dataclass(frozen=True)
class MethodSpec:
    """A method with a value for each of its options."""

    name: str
    options: dict[str, Any] = field(hash=False)

    @cached_property
    def label(self) -> str:
        """The name with the options that differ from its defaults."""
        return METHODS[self.name].label(self.options)


def parse_methods(text: str) -> tuple[MethodSpec, ...]:
    """``all``, or ``a,b:option=value,option=value,c``: methods with their options. Raises InputError."""
    given: list[tuple[str, dict[str, str]]] = []
    name = ""
    for part in text.split(","):
        head, colon, option = (piece.strip() for piece in part.partition(":"))
        another_option = not colon and "=" in part and bool(given)  # of the method before
        if another_option:
            colon, option = ":", part.strip()
        else:
            name = head
        if name == "all" and colon:
            raise InputError("all takes no options: give them to a method by name")
        if not another_option:
            given += [(each, {}) for each in _names(name, text)]
        if colon:
            key, equals, value = (piece.strip() for piece in option.partition("="))
            if not (key and equals and value):
                raise InputError(f"method {name}: option {option!r}: expected OPTION=VALUE")
            if key in given[-1][1]:
                raise InputError(f"method {name}: option {key!r} is given twice")
            given[-1][1][key] = value
    specs: dict[str, MethodSpec] = {}
    for name, options in given:
        try:
            spec = MethodSpec(name, METHODS[name].configure(options))
        except OptionError as error:
            raise InputError(str(error) if str(error).startswith("method") else f"method {name}: {error}") from error
        specs[spec.label] = spec
    return tuple(specs.values())


def _names(name: str, text: str) -> list[str]:
    """The methods that ``name``, a part of ``text``, stands for. Raises InputError."""
    if name == "all":
        return sorted(METHODS, key=lambda name: (name != "none", name))
    if not name:
        raise InputError(f"methods {text!r}: expected METHOD,METHOD:OPTION=VALUE or all, found an empty name")
    if name not in METHODS:
        raise unregistered("method", name, [*METHODS, "all"])
    return [name]


def parse_seeds(text: str) -> tuple[int, ...]:
    """``3`` for the seeds 0, 1, 2; ``0,4,7`` for those; ``7,`` for that one. Raises InputError."""
    parts = text.split(",")
    try:
        seeds = [int(part) for part in (parts[:-1] if len(parts) == 2 and not parts[1].strip() else parts)]
    except ValueError:
        seeds = []
    if len(parts) == 1 and seeds:
        seeds = list(range(seeds[0])) if seeds[0] <= MOST_SEEDS else []
    if not seeds or min(seeds) < 0 or max(seeds) >= 2**32 or len(set(seeds)) < len(seeds):
        raise InputError(
            f"seeds {text!r}: expected a number of seeds (3, at most {MOST_SEEDS}), "
            "different seeds from 0 to 2^32 - 1 (0,4,7), or one of them (7,)"
        )
    return tuple(seeds)


def parse_levels(text: str) -> tuple[float, ...]:
    """``all``, or shares removed such as ``0.25,50%``; both ends are always measured. Raises InputError."""
    if text == "all":
        return ()
    levels = {0.0, 1.0}
    for part in text.split(","):
        level = fraction(part.strip())
        if not 0 <= level <= 1:
            raise InputError(
                f"level {part!r}: expected a share removed from 0 to 1, or a percentage such as 50%, or all"
            )
        levels.add(level)
    return tuple(sorted(levels))
