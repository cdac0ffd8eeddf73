"""The registry of methods: one decorator per shape; options are read from the function's signature."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

from torch import Tensor, nn

from methods.contract.method import RECOVER, Check, Method
from methods.contract.options import Option, OptionError
from methods.contract.schedule import Schedule
from methods.contract.trace import Trace
from methods.contract.view import View

# Names stand in lists on the command line; the legends of matplotlib show none that begins with an underscore.
NAME = re.compile(r"[^\W_][\w.-]*")

METHODS: dict[str, Method] = {}

Variants = Mapping[str, Mapping[str, Any]] | None  # presets by name of the variant


def scorer(
    name: str,
    *,
    source: str,
    control: bool = False,
    variants: Variants = None,
    batch_dependent: Mapping[str, Any] | None = None,
    check: Check = None,
):
    """Register ``function(view, *, option=default, ...) -> importance`` as a scorer.

    The importance has shape (units,); larger means keep. A random scorer may return (draws, units), which makes one
    removal order per draw; a scorer that ranks neurons too returns an Importance.

    source: the paper, with its equation.
    control: whether the method is only there for comparison.
    variants: names for combinations of options, such as ``{"inverse-ae": {"inverse": True}}``.
    batch_dependent: options with which the importance of a head depends on how texts are batched, ``{}`` if it always
        does. All other importances must not.
    check: ``function(options)`` that raises OptionError for values that do not go together, given the value of every
        option by name, so that a run refuses them before it trains a model.

    Raises ValueError if a name is taken or not valid, or a parameter is no keyword, OptionError (a ValueError) if a
    default or a variant is not valid, and TypeError for an option that is not annotated.
    """

    def register(function):
        own, shared = _signature_options(name, function, 1), _schedule_options()
        if taken := own.keys() & shared.keys():
            raise ValueError(f"method {name!r}: the schedule already has an option {', '.join(sorted(taken))}")
        method = Method(name, "scorer", function, own | shared, source, control, name)
        method = replace(method, controls={"inverse": [True]}, batch_dependent=batch_dependent, check=check)
        _add(method, variants)
        return function

    return register


@dataclass(frozen=True)
class Kept:
    """What a selector that removes neurons too keeps for one budget.

    mask: (units,) bool, the units kept; their number need not be the budget's.
    neurons: (width,) bool by name of the feed-forward layer, the neurons kept.
    """

    mask: Tensor
    neurons: Mapping[str, Tensor]


def selector(
    name: str,
    *,
    source: str,
    control: bool = False,
    variants: Variants = None,
    recover: str = "none",
    neurons: Mapping[str, Sequence[Any]] | None = None,
    own_number: Callable[[View], int] | None = None,
    check: Check = None,
):
    """Register ``function(view, keep, *, option=default, ...) -> mask`` as a selector.

    keep: the budget, as a number of units. The mask is (units,) bool, true for the ``keep`` units that are kept, one at
        least of each site that cannot run without any head: ``view.heads.best(importance, keep)`` sees to that.
    source, control, variants, check: as for ``scorer``.
    recover: default of the option ``recover``.
    neurons: values of options with which it removes neurons too, such as ``{"parts": ["both"]}``. It returns a Kept
        then, and takes the share of the units that ``keep`` leaves out for a share of units and neurons together, to
        be divided between the two as it finds best.
    own_number: ``function(view) -> int``, the number of units that it keeps if it is given no budget.

    Raises as ``scorer`` does.
    """

    def register(function):
        method = Method(name, "selector", function, _signature_options(name, function, 2), source, control, name)
        presets = {RECOVER.name: recover} if recover != RECOVER.default else {}
        method = replace(method, presets=presets, neurons=neurons or {}, own_number=own_number, check=check)
        _add(method, variants)
        return function

    return register


@dataclass(frozen=True)
class Trained:
    """Result of a joint method for one budget.

    mask: (units,) bool, the units kept, as many as the budget.
    model: the whole model, with no head removed yet, with the weights trained for this mask; in evaluation mode and
        without hooks. The view's own model if no weight was trained.
    report: numbers to record, such as the temperature at the end of training.
    neurons: (width,) bool by name of the feed-forward layer, the neurons kept; None if all are. If neurons are removed,
        the mask may keep all units.
    trace: what the training was like on the way; None where that was not recorded.
    """

    mask: Tensor
    model: nn.Module
    report: Mapping[str, float] = field(default_factory=dict)
    neurons: Mapping[str, Tensor] | None = None
    trace: Trace | None = None


def joint(
    name: str,
    *,
    source: str,
    control: bool = False,
    controls: Mapping[str, Sequence[Any]] | None = None,
    variants: Variants = None,
    training_free: bool = False,
    check: Check = None,
):
    """Register ``function(view, budgets, *, option=default, ...) -> iterator of Trained`` as a joint method.

    It trains gates, weights of copies of the model or both on ``view.training``, and yields one Trained per budget, a
    number of units to keep, in the order of ``budgets``. Its cost is recorded as training, not as scoring.

    source, control, variants, check: as for ``scorer``.
    controls: values of options that make it a control, such as ``{"choice": ["random"]}``.
    training_free: it trains nothing, but makes new weights from the calibration set, in closed form or by a few passes,
        and does not use ``view.training``. Its cost is recorded as scoring, and it is compared with methods whose
        weights are recovered without training.

    Raises as ``scorer`` does.
    """

    def register(function):
        method = Method(name, "joint", function, _signature_options(name, function, 2), source, control, name)
        _add(replace(method, controls=controls or {}, training_free=training_free, check=check), variants)
        return function

    return register


def _add(base: Method, variants: Variants) -> None:
    named: dict[str, Mapping[str, Any]] = {base.name: {}, **(variants or {})}
    methods = []
    for name, own in named.items():
        if name == "all" or not NAME.fullmatch(name):
            raise ValueError(
                f"method {name!r}: a name consists of letters, digits, '-', '_' and '.', begins with a letter or a "
                "digit, and is not all"
            )
        values = base.configure(own)
        presets = {**base.presets, **{option: values.get(option, RECOVER.default) for option in own}}
        methods.append(replace(base, name=name, presets=presets, control=base.is_control(presets)))
    for method in methods:
        if method.name in METHODS:
            other = METHODS[method.name].function.__module__
            raise ValueError(f"method {method.name!r} of {method.function.__module__} is already registered by {other}")
    METHODS.update({method.name: method for method in methods})


def _signature_options(name: str, function: Callable[..., Any], given: int) -> dict[str, Option]:
    """The options of a method, which gets ``given`` arguments by their place."""
    hints, options = get_type_hints(function, include_extras=True), {}
    parameters = list(inspect.signature(function).parameters.values())
    placed = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(placed) < given and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        raise ValueError(f"method {name!r}: its function takes {len(placed)} arguments by place, and is given {given}")
    if parameters and parameters[-1].kind is parameters[-1].VAR_KEYWORD:
        raise ValueError(f"method {name!r}: name each option instead of **{parameters[-1].name}")
    for place, parameter in enumerate(parameters):
        if place >= given and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            raise ValueError(f"method {name!r}: put `*` before {parameter.name}: options are keyword arguments")
        if parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.default is parameter.empty:
                raise OptionError(f"method {name!r}: option {parameter.name} needs a default")
            try:
                option = Option.of(parameter.name, hints.get(parameter.name), parameter.default)
            except (TypeError, OptionError) as error:
                raise type(error)(f"method {name!r}: {error}") from None
            options[option.name] = option
    if RECOVER.name in options:
        raise ValueError(f"method {name!r}: {RECOVER.name} is already an option of every scorer and selector")
    return options


def _schedule_options() -> dict[str, Option]:
    hints = get_type_hints(Schedule, include_extras=True)
    return {f.name: Option.of(f.name, hints[f.name], f.default) for f in dataclasses.fields(Schedule)}
