"""The registry: one decorator a shape, options read from the function's own signature, no list to edit."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal, get_type_hints

from torch import Tensor, nn

from methods.contract.options import Option, OptionError
from methods.contract.schedule import Schedule


@dataclass(frozen=True)
class Method:
    """A registered method, or one variant of it by name.

    shape: ``scorer`` (importances, to which the runner applies a schedule), ``selector`` (a mask for a budget) or
        ``joint`` (a mask for each budget, with the weights that were trained for it).
    base, presets: a variant's main name, and the options in which it differs.
    controls: values of options with which it is a control too.
    batch_dependent: options under which the answer depends, by definition, on how texts are batched and padded; with no
        option in it, the answer always does. None where it never does.
    """

    name: str
    shape: Literal["scorer", "selector", "joint"]
    function: Callable[..., Any]
    options: Mapping[str, Option]
    source: str
    control: bool
    base: str
    presets: Mapping[str, Any] = field(default_factory=dict)
    controls: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    batch_dependent: Mapping[str, Any] | None = None

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

    def is_control(self, options: Mapping[str, Any]) -> bool:
        """Whether it is there to be compared with, under ``options``, and not for its own sake."""
        return self.control or any(options.get(name) in values for name, values in self.controls.items())

    def label(self, options: Mapping[str, Any]) -> str:
        """The name with the options that differ from its defaults: ``michel:layer_norm=false``."""
        usual = self.configure({})
        changed = [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in options.items() if v != usual[k]]
        return self.name + (":" + ",".join(sorted(changed)) if changed else "")


METHODS: dict[str, Method] = {}


Variants = Mapping[str, Mapping[str, Any]] | None  # options of each further name


def scorer(
    name: str,
    *,
    source: str,
    control: bool = False,
    variants: Variants = None,
    batch_dependent: Mapping[str, Any] | None = None,
):
    """Register ``function(view, *, option=default, ...) -> importance`` as a scorer.

    The importance has shape (units,), larger means keep; a scorer that is random by nature may return (draws, units),
    one trajectory a draw, and one that ranks neurons too an Importance. ``variants`` names combinations of options,
    such as ``{"inverse-ae": {"inverse": True}}``. An importance must not depend on the batch that a text is in, unless
    ``batch_dependent`` says so: options under which it does, ``{}`` for all.
    Raises ValueError where a name is taken, OptionError (a ValueError) where a default or a variant cannot be.
    """

    def register(function):
        own, shared = _signature_options(function), _schedule_options()
        if taken := own.keys() & shared.keys():
            raise ValueError(f"method {name!r}: every scorer has an option {', '.join(sorted(taken))} already")
        method = Method(name, "scorer", function, own | shared, source, control, name)
        _add(replace(method, controls={"inverse": [True]}, batch_dependent=batch_dependent), variants)
        return function

    return register


def selector(name: str, *, source: str, control: bool = False, variants: Variants = None):
    """Register ``function(view, keep, *, option=default, ...) -> mask`` as a selector.

    ``keep`` is the budget in units; the mask has shape (units,), true where a unit is kept. Raises ValueError where the
    name is taken.
    """

    def register(function):
        _add(Method(name, "selector", function, _signature_options(function), source, control, name), variants)
        return function

    return register


@dataclass(frozen=True)
class Trained:
    """What a joint method found for one budget.

    mask: (units,) bool, the units kept; as many as the budget says.
    model: the whole model, no head removed yet, with the weights trained for this mask, in evaluation mode and without
        hooks. The model of the view itself where no weight was trained.
    report: plain numbers worth recording, such as the temperature that training ended at.
    neurons: (width,) bool by name of the feed-forward layer, the neurons kept; None where all stay. Where neurons go,
        the mask may keep all units.
    """

    mask: Tensor
    model: nn.Module
    report: Mapping[str, float] = field(default_factory=dict)
    neurons: Mapping[str, Tensor] | None = None


def joint(
    name: str,
    *,
    source: str,
    control: bool = False,
    controls: Mapping[str, Sequence[Any]] | None = None,
    variants: Variants = None,
):
    """Register ``function(view, budgets, *, option=default, ...) -> iterator of Trained`` as a joint method.

    It trains gates, and perhaps the weights of a copy of the model, on ``view.training``; it yields a Trained for each
    budget (a number of units to keep, 0 to all), in the order of ``budgets``. What it costs is recorded as training.
    ``controls`` are values of options with which it is a control. Raises ValueError where the name is taken.
    """

    def register(function):
        method = Method(name, "joint", function, _signature_options(function), source, control, name)
        _add(replace(method, controls=controls or {}), variants)
        return function

    return register


def _add(base: Method, variants: Variants) -> None:
    named: dict[str, Mapping[str, Any]] = {base.name: {}, **(variants or {})}
    methods = []
    for name, presets in named.items():
        presets = {option: base.configure(presets)[option] for option in presets}
        methods.append(replace(base, name=name, presets=presets, control=base.is_control(presets)))
    for method in methods:
        if method.name in METHODS:
            other = METHODS[method.name].function.__module__
            raise ValueError(f"method {method.name!r} of {method.function.__module__} is already registered by {other}")
    METHODS.update({method.name: method for method in methods})


def _signature_options(function: Callable[..., Any]) -> dict[str, Option]:
    hints = get_type_hints(function, include_extras=True)
    return {
        p.name: Option.of(p.name, hints[p.name], p.default)
        for p in inspect.signature(function).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }


def _schedule_options() -> dict[str, Option]:
    hints = get_type_hints(Schedule, include_extras=True)
    return {f.name: Option.of(f.name, hints[f.name], f.default) for f in dataclasses.fields(Schedule)}
