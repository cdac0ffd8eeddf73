"""A case: one check of one method on one kind of tiny model."""

from __future__ import annotations

import inspect
import shlex
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from methods import METHODS, Importance, Kept, Method, Trained, View
from methods.checks.isolation import isolated
from methods.checks.tiny_models import TINY_MODELS, TinyModel
from methods.contract.choosing import Selection
from methods.contract.method import RECOVER
from methods.contract.origin import own_line
from methods.contract.schedule import Schedule
from methods.recovery.choosing import select

SHAPES = ("scorer", "selector", "joint")
RESULTS = {
    "scorer": "a tensor with one entry per unit, (units,), or an Importance",
    "selector": "a mask of the units kept, (units,) bool, or a Kept",
    "joint": "a Trained for each budget",
}
SCHEDULE = frozenset(Schedule.__dataclass_fields__)


class Failure(AssertionError):
    """A method breaks a rule. The message says what differs, and where."""


class NotApplicable(Exception):
    """A check does not apply to a method. The message gives the reason."""


@dataclass(frozen=True, eq=False)
class ConfiguredMethod:
    """A method with a value for every option."""

    method: Method
    options: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, **options: Any) -> ConfiguredMethod:
        """The registered method of that name; ``options`` override its defaults."""
        return cls(METHODS[name], METHODS[name].configure(options))

    @property
    def label(self) -> str:
        """The name with the options that differ from its defaults."""
        return self.method.label(self.options)

    @property
    def own_options(self) -> dict[str, Any]:
        """Options of the method's function, without those of the schedule and of what follows the choice."""
        return {name: value for name, value in self.options.items() if name not in SCHEDULE | {RECOVER.name}}

    @property
    def batch_dependent(self) -> bool:
        """Whether results are declared to depend on how texts are batched."""
        declared = self.method.batch_dependent
        return declared is not None and all(self.options[name] == value for name, value in declared.items())

    @property
    def function(self) -> Callable[..., Any]:
        """The method's function, with its options."""
        return partial(self.method.function, **self.own_options)

    def seen(self, view: View) -> View:
        """``view`` as a run would give it to the method: with examples to train on only if it trains."""
        return view if self.method.trains else replace(view, training=None)

    def result(self, view: View) -> dict[str, Tensor]:
        """A scorer's importances of units and of each layer's neurons by name; otherwise masks that keep half.

        Comes from the function itself, without a schedule; on the CPU.
        """
        view, half = self.seen(view), len(view.heads) // 2
        if self.method.shape == "joint":
            found: Any = next(iter(self.function(view, [half])), None)
        else:
            found = self.function(view, *([half] if self.method.shape == "selector" else []))
        if isinstance(found, Importance):
            parts = {"units": found.units, **(found.neurons or {})}
        elif isinstance(found, Kept):
            parts = {"units": found.mask, **found.neurons}
        else:
            parts = {"units": found.mask if isinstance(found, Trained) else found}
        if found is None or any(not isinstance(each, Tensor | None) for each in parts.values()):
            raise Failure(f"gives a {type(found).__name__}, expected {RESULTS[self.method.shape]}")
        if odd := [values.dtype for values in parts.values() if values is not None and values.is_complex()]:
            raise Failure(f"gives numbers of {odd[0]}, expected real ones")
        return {name: values.detach().cpu() for name, values in parts.items() if values is not None}

    def select(self, view: View, removed: Sequence[int], **options: Any) -> Selection:
        """What a run would keep; ``options`` override the method's."""
        return select(self.method, {**self.options, **options}, self.seen(view), removed)


def _always(configured: ConfiguredMethod, on: TinyModel) -> bool:
    return True


@dataclass(frozen=True)
class Check:
    """One rule.

    shapes: shapes of the methods that it is about. applies: whether it is about a method of these shapes on a model.
    ignores_schedule: it calls the method's function directly, so one of the names that share a function and its options
        is enough.
    """

    function: Callable[[ConfiguredMethod, TinyModel], None]
    shapes: tuple[str, ...]
    applies: Callable[[ConfiguredMethod, TinyModel], bool]
    ignores_schedule: bool

    @property
    def name(self) -> str:
        return self.function.__name__.replace("_", "-")

    @property
    def rule(self) -> str:
        """What must hold, in one line."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


CHECKS: list[Check] = []


def check(
    *shapes: str, applies: Callable[[ConfiguredMethod, TinyModel], bool] = _always, ignores_schedule: bool = False
):
    """Register ``function(configured, on)``, which raises Failure or NotApplicable, for methods of these shapes."""

    def register(function):
        CHECKS.append(Check(function, shapes or SHAPES, applies, ignores_schedule))
        return function

    return register


@dataclass(frozen=True)
class Case:
    """One check of one method on one kind of tiny model."""

    check: Check
    configured: ConfiguredMethod
    on: TinyModel

    @property
    def command(self) -> str:
        """Command line that runs this case alone."""
        return f"headbench check {shlex.quote(self.configured.label)} --only {self.check.name} --on {self.on.name}"

    def run(self) -> None:
        """Raises Failure, also for any error of the method, or NotApplicable. Restores switches and random states."""
        try:
            with isolated():
                self.check.function(self.configured, self.on)
        except (Failure, NotApplicable):
            raise
        except (Exception, SystemExit) as error:  # a method may call sys.exit, or code that does
            message = " ".join(str(error).split()) or "no message"
            raise Failure(f"{type(error).__name__}: {message} ({_origin(error, self.configured)})") from error


def cases(methods: Iterable[ConfiguredMethod], models: Sequence[TinyModel] = TINY_MODELS) -> Iterator[Case]:
    """All cases that apply to these methods, by method, then by check."""
    seen: list[tuple[object, dict[str, Any]]] = []
    for configured in methods:
        function = (configured.method.function, configured.own_options)
        for each in CHECKS:
            if configured.method.shape in each.shapes and not (each.ignores_schedule and function in seen):
                yield from (Case(each, configured, on) for on in models if each.applies(configured, on))
        seen.append(function)


def _origin(error: BaseException, configured: ConfiguredMethod) -> str:
    """File and line of ``error``: the innermost in the method's own file, otherwise the innermost of all."""
    frame = own_line(configured.method.function, error) or traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}"
