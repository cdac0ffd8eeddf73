"""A case: one check of one method on one kind of model, and which cases there are."""

from __future__ import annotations

import inspect
import shlex
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from methods import METHODS, Importance, Method, View
from methods.checks.process import sealed
from methods.checks.tiny import Batch, Tiny
from methods.contract.choosing import Selection, select
from methods.contract.schedule import Schedule
from methods.heads import HeadMap

SHAPES = ("scorer", "selector", "joint")
SCHEDULE = frozenset(Schedule.__dataclass_fields__)
TINY = Tiny()


class Failure(AssertionError):
    """What a method gets wrong: what differs, and where."""


class NotApplicable(Exception):
    """Why a check says nothing of a method."""


@dataclass(frozen=True, eq=False)
class Subject:
    """The method that is checked, with every one of its options."""

    method: Method
    options: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, **options: Any) -> Subject:
        """A registered method, with options that differ from its own."""
        return cls(METHODS[name], METHODS[name].configure(options))

    @property
    def label(self) -> str:
        """The name with the options that differ from its defaults."""
        return self.method.label(self.options)

    @property
    def own(self) -> dict[str, Any]:
        """Options of the function itself."""
        return {name: value for name, value in self.options.items() if name not in SCHEDULE}

    @property
    def batch_dependent(self) -> bool:
        """Whether the answer depends on how texts are batched, and is meant to."""
        given = self.method.batch_dependent
        return given is not None and all(self.options[name] == value for name, value in given.items())

    @property
    def function(self) -> Callable[..., Any]:
        """The function, with its options."""
        return partial(self.method.function, **self.own)

    def answer(self, view: View) -> dict[str, Tensor]:
        """A scorer's importances of units and of each layer's neurons, or another's mask with half of the units kept.

        No schedule has a part in it; on the CPU.
        """
        half = len(view.heads) // 2
        if self.method.shape == "joint":
            given: Any = next(iter(self.function(view, [half]))).mask
        else:
            given = self.function(view, *([half] if self.method.shape == "selector" else []))
        parts = {"units": given}
        if isinstance(given, Importance):
            parts = {"units": given.units, **(given.neurons or {})}
        return {name: values.detach().cpu() for name, values in parts.items() if values is not None}

    def select(self, view: View, removed: Sequence[int], **options: Any) -> Selection:
        """What a run would choose, under ``options`` beside the method's."""
        return select(self.method, {**self.options, **options}, view, removed)


@dataclass(frozen=True)
class Scene:
    """A kind of tiny model, and the side on which its texts are padded."""

    name: str
    about: str
    architecture: str
    padding: str = "right"

    def view(
        self, seed: int = 0, dtype: torch.dtype = torch.float32, device: str = "cpu", batches: Sequence[Batch] = ()
    ) -> View:
        """A new model, frozen as in a run, and ``batches``: without any, six random texts with padding."""
        model: Any = TINY.model(self.architecture, seed, dtype).requires_grad_(False)
        batches = batches or [TINY.batch(TINY.sentences(seed), self.padding, extra=1)]
        moved = [Batch({k: v.to(device) for k, v in b.inputs.items()}, b.labels.to(device)) for b in batches]
        return TINY.view(model.to(device), moved, TINY.unit(self.architecture), seed=seed)

    def on(self, view: View, model: torch.nn.Module) -> View:
        """``view`` of another model."""
        heads = HeadMap.of(model, view.heads.unit)
        return replace(view, model=model, heads=heads, kept=heads.full_mask())


SCENES = (
    Scene("bert", "an encoder", "bert"),
    Scene("albert", "tied layers", "albert"),
    Scene("llama", "grouped queries, a unit is a group", "llama"),
    Scene("llama-query", "grouped queries, a unit is a query of every group", "llama-query"),
    Scene("llama-left", "padding on the left", "llama", padding="left"),
)


@dataclass(frozen=True)
class Check:
    """One thing that must hold.

    shapes: of the methods that it is about. otherwise: why it is not about the others.
    once: it asks the function itself, whatever the schedule is, so that one of the names that share a function and its
        options is enough.
    """

    function: Callable[[Subject, Scene], None]
    shapes: tuple[str, ...]
    otherwise: str
    once: bool

    @property
    def name(self) -> str:
        return self.function.__name__.replace("_", "-")

    @property
    def holds(self) -> str:
        """What must hold, in a line."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


CHECKS: list[Check] = []


def check(*shapes: str, otherwise: str = "", once: bool = False):
    """Register ``function(subject, scene)``, which raises Failure or NotApplicable, for methods of these shapes."""

    def register(function):
        CHECKS.append(Check(function, shapes or SHAPES, otherwise, once))
        return function

    return register


@dataclass(frozen=True)
class Case:
    """One check of one method on one kind of model."""

    check: Check
    subject: Subject
    scene: Scene

    @property
    def command(self) -> str:
        """How to see it again, alone."""
        return f"headbench check {shlex.quote(self.subject.label)} --only {self.check.name} --on {self.scene.name}"

    def run(self) -> None:
        """Raises Failure, also for any error of the method, or NotApplicable. What the process has stays as it was."""
        if self.subject.method.shape not in self.check.shapes:
            raise NotApplicable(self.check.otherwise)
        try:
            with sealed():
                self.check.function(self.subject, self.scene)
        except (Failure, NotApplicable):
            raise
        except Exception as error:
            said = " ".join(str(error).split()) or "no message"
            raise Failure(f"{type(error).__name__}: {said} ({_place(error, self.subject)})") from error


def cases(subjects: Iterable[Subject], scenes: Sequence[Scene] = SCENES) -> Iterator[Case]:
    """Every case of these methods: by method, then by check. What asks a function itself is asked once a function."""
    asked: list[tuple[object, dict[str, Any]]] = []
    for subject in subjects:
        function = (subject.method.function, subject.own)
        for each in CHECKS:
            if not (each.once and function in asked):
                yield from (Case(each, subject, scene) for scene in scenes)
        asked.append(function)


def _place(error: Exception, subject: Subject) -> str:
    """The last line of the method's own file that led to ``error``, else the last line of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = inspect.getsourcefile(subject.method.function)
    frame = next((frame for frame in reversed(frames) if frame.filename == own), frames[-1])
    return f"{frame.filename}:{frame.lineno}"
