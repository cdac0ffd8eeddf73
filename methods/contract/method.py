"""A registered method: what it takes, what it is, and how it is called on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from methods.contract.options import Option, OptionError, plain
from methods.contract.view import View

Check = Callable[[Mapping[str, Any]], None] | None

# An option of every scorer and selector that is none of its function's: what becomes of the weights of its choices.
RECOVER = Option.of(
    "recover",
    Annotated[
        Literal["none", "bias", "scale", "scale-damped", "lstsq"],
        "give the heads that are left new output weights, without training: the removed heads' mean in the bias, one "
        "number for each head (damped: by the constant of Kwon et al.), or all of the weights by least squares",
    ],
    "none",
)


@dataclass(frozen=True)
class Method:
    """A registered method, or a named variant of one.

    shape: ``scorer`` (importances, to which a schedule is applied), ``selector`` (a mask for a budget) or ``joint``
        (for each budget a mask with the weights trained for it).
    source: the paper, with its equation, or ``control``.
    control: whether the method is only there for comparison.
    base, presets: name of the method that this is a variant of, and the options in which it differs.
    controls: values of options that make it a control.
    neurons: values of options with which a selector removes neurons too.
    batch_dependent: options with which results depend, by definition, on how texts are batched and padded; empty if
        they always do, None if they never do.
    training_free: whether a joint method makes its weights from the calibration set, without training.
    own_number: ``function(view) -> int``, the number of units that a selector keeps if it is given no budget; None
        where it needs one.
    check: ``function(options)`` that raises OptionError for values of options that do not go together.
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
    neurons: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    batch_dependent: Mapping[str, Any] | None = None
    training_free: bool = False
    own_number: Callable[[View], int] | None = None
    check: Check = None

    @property
    def trains(self) -> bool:
        """Whether the method trains gates or weights."""
        return self.shape == "joint" and not self.training_free

    @property
    def role(self) -> str:
        """Its shape, and what else a reader of a list should know, such as ``joint, training-free``."""
        marks = [("training-free", self.training_free), ("control", self.control)]
        return ", ".join([self.shape, *(mark for mark, marked in marks if marked)])

    @property
    def summary(self) -> str:
        """First line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def configure(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A value for every option: defaults, overridden by the presets of a variant, overridden by ``given``.

        ``recover`` is among them only where it is not ``none``.

        Raises OptionError for an unknown name, a value that is not valid, and values that do not go together.
        """
        known = {**self.options} if self.shape == "joint" else {**self.options, RECOVER.name: RECOVER}
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"available: {', '.join(known) or 'no option'}"
                raise OptionError(f"method {self.name} has no option {name!r}; {hint}")
        values = {name: option.default for name, option in self.options.items()} | dict(self.presets)
        values |= {name: known[name].parse(value) for name, value in given.items()}
        if self.check is not None:
            self.check(values)
        return {name: value for name, value in values.items() if (name, value) != (RECOVER.name, RECOVER.default)}

    def is_control(self, options: Mapping[str, Any]) -> bool:
        """Whether the method with these options is only there for comparison."""
        return self.control or any(options.get(name) in values for name, values in self.controls.items())

    def splits_budget(self, options: Mapping[str, Any]) -> bool:
        """Whether the method is a selector that, with these options, removes neurons too and so returns a Kept."""
        return any(options.get(name) in values for name, values in self.neurons.items())

    def label(self, options: Mapping[str, Any]) -> str:
        """The name with the options that differ from its defaults, such as ``michel:layer_norm=false``."""
        absent = {RECOVER.name: RECOVER.default}
        defaults = absent | self.configure({})
        changed = [
            f"{name}={plain(value)}" for name, value in (absent | {**options}).items() if value != defaults[name]
        ]
        return self.name + (":" + ",".join(sorted(changed)) if changed else "")
