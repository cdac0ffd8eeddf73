"""The registry: one decorator a shape, options read from the function's own signature, no list to edit."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from methods.schedule import Schedule


class OptionError(ValueError):
    """An unknown option, or a value that the option cannot take."""


@dataclass(frozen=True)
class Option:
    """One option of a method: its type, default and what it means."""

    name: str
    type: Any
    default: Any
    help: str

    def parse(self, value: Any) -> Any:
        """``value`` (a string from a command line, or a plain value from a file) as this option's type.

        Raises OptionError where it cannot be one.
        """
        choices = get_args(self.type) if get_origin(self.type) is Literal else ()
        if choices:
            if value in choices:
                return value
            raise OptionError(f"option {self.name}={value}: expected one of {', '.join(map(str, choices))}")
        try:
            if self.type is bool:
                return {"true": True, "false": False}[str(value).lower()]
            if self.type is int and isinstance(value, float) and not value.is_integer():
                raise ValueError
            return self.type(value)
        except (KeyError, ValueError):
            expected = "true or false" if self.type is bool else {"int": "a whole number", "float": "a number"}
            expected = expected if isinstance(expected, str) else expected.get(self.type.__name__, self.type.__name__)
            raise OptionError(f"option {self.name}={value}: expected {expected}") from None


@dataclass(frozen=True)
class Method:
    """A registered method, or one variant of it by name.

    shape: ``scorer`` (importances, to which the runner applies a schedule) or ``selector`` (a mask for a budget).
    base, presets: a variant's main name, and the options in which it differs.
    """

    name: str
    shape: Literal["scorer", "selector"]
    function: Callable[..., Any]
    options: Mapping[str, Option]
    source: str
    control: bool
    base: str
    presets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """First line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def configure(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every option with its value: defaults, then this name's presets, then ``given``.

        Raises OptionError for a name that this method does not have, or a value of the wrong kind.
        """
        for name in given:
            if name not in self.options:
                near = get_close_matches(name, self.options, n=1)
                hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(self.options) or 'none'}"
                raise OptionError(f"method {self.name} has no option {name!r}{hint}")
        values = {name: option.default for name, option in self.options.items()} | dict(self.presets)
        return values | {name: self.options[name].parse(value) for name, value in given.items()}

    def label(self, options: Mapping[str, Any]) -> str:
        """The name with the options that differ from its defaults: ``michel:layer_norm=false``."""
        usual = self.configure({})
        changed = [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in options.items() if v != usual[k]]
        return self.name + (":" + ",".join(sorted(changed)) if changed else "")


METHODS: dict[str, Method] = {}


def scorer(name: str, *, source: str, control: bool = False, variants: Mapping[str, Mapping[str, Any]] | None = None):
    """Register ``function(view, *, option=default, ...) -> importance`` as a scorer.

    The importance has shape (units,), larger means keep; a scorer that is random by nature may return (draws, units),
    one trajectory a draw. ``variants`` names combinations of options, such as ``{"inverse-ae": {"inverse": True}}``.
    Raises ValueError where the name is taken.
    """

    def register(function):
        options = _signature_options(function) | _schedule_options()
        named: dict[str, Mapping[str, Any]] = {name: {}, **(variants or {})}
        for variant, presets in named.items():
            inverse = bool(presets.get("inverse"))
            _add(Method(variant, "scorer", function, options, source, control or inverse, name, presets))
        return function

    return register


def selector(name: str, *, source: str, control: bool = False):
    """Register ``function(view, keep, *, option=default, ...) -> mask`` as a selector.

    ``keep`` is the budget in units; the mask has shape (units,), true where a unit is kept. Raises ValueError where the
    name is taken.
    """

    def register(function):
        _add(Method(name, "selector", function, _signature_options(function), source, control, name))
        return function

    return register


def _add(method: Method) -> None:
    if method.name in METHODS:
        other = METHODS[method.name].function.__module__
        raise ValueError(f"method {method.name!r} of {method.function.__module__} is already registered by {other}")
    METHODS[method.name] = method


def _signature_options(function: Callable[..., Any]) -> dict[str, Option]:
    hints = get_type_hints(function, include_extras=True)
    return {
        p.name: _option(p.name, hints[p.name], p.default)
        for p in inspect.signature(function).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }


def _schedule_options() -> dict[str, Option]:
    hints = get_type_hints(Schedule, include_extras=True)
    return {f.name: _option(f.name, hints[f.name], f.default) for f in dataclasses.fields(Schedule)}


def _option(name: str, hint: Any, default: Any) -> Option:
    """An option from ``Annotated[type, "what it means"]``."""
    if get_origin(hint) is not Annotated:
        raise TypeError(f"option {name}: annotate it as Annotated[type, 'what it means']")
    kind, text = get_args(hint)
    return Option(name, kind, default, text)
