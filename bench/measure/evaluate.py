"""Evaluate what methods choose: the physically smaller model of every choice, as soon as the choice is made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import nn

from bench.measure.cost import Passes, Stopwatch
from bench.measure.exactness import largest_gap
from methods import View
from methods.contract.choice import Choice
from methods.contract.choosing import Draw
from methods.contract.trace import Trace
from methods.heads import HeadMap, count_megabytes, count_parameters, restarting
from methods.heads.surgery.shrink import shrink, working_copy
from tasks.contract import Task
from tasks.outcomes import Outcomes


@dataclass(frozen=True)
class Evaluation:
    """Quality and size of a model."""

    outcomes: Outcomes
    parameters: dict[str, int]  # by module
    megabytes: dict[str, float]  # by module, MB of 2**20 bytes


def evaluate_model(task: Task, model: nn.Module) -> Evaluation:
    """Evaluate ``model`` as it is. Raises FloatingPointError where logits are not finite."""
    return Evaluation(task.evaluate(model), count_parameters(model), count_megabytes(model))


Ends = dict[bool, tuple[Evaluation, Stopwatch]]  # with all units (True) and with none (False), and what each took


def evaluate_ends(task: Task, model: nn.Module, heads: HeadMap, removed: Collection[int], device: torch.device) -> Ends:
    """Evaluate the task's own ``model`` with all of its units and with none, where ``removed`` asks for that.

    To be called before a method is given the model: the curves of all methods begin and end there.
    """
    ends: Ends = {}
    for whole, mask in ((True, heads.full_mask()), (False, ~heads.full_mask())):
        choice = Choice(model, heads, mask)
        if choice.removed in removed:
            with Stopwatch(device) as taken:
                ends[whole] = evaluate_model(task, choice.smaller()), taken
    return ends


@dataclass(frozen=True)
class Level:
    """A choice at one level without its weights, and its evaluation."""

    mask: torch.Tensor  # (units,) bool
    neurons: dict[str, torch.Tensor] | None  # (width,) bool by feed-forward layer; None where all stay
    report: dict[str, float]
    evaluation: Evaluation
    trace: Trace | None = None


@dataclass
class Evaluator:
    """Evaluates choices one by one, so that the weights of no more than one are held at a time.

    checked: numbers of units removed at which the first draw's smaller models are compared with the gated ones; gap is
    the largest difference found. choosing, evaluation: what the method and the evaluation take. ends: of the task's own
    model; they are not made again, but what they took is added.
    """

    task: Task
    view: View
    checked: Collection[int]
    passes: Passes
    choosing: Stopwatch
    evaluation: Stopwatch
    gap: float = 0.0
    ends: Ends = field(default_factory=dict)
    _known: dict[tuple[object, ...], Evaluation] = field(default_factory=dict)

    def __call__(self, draws: Iterable[Draw]) -> list[tuple[Draw, list[Level]]]:
        """Every draw with its levels, in their order.

        Raises FloatingPointError where logits are not finite, NotExact where heads were not removed exactly.
        """
        return [
            (draw, self._evaluate(draw, check=not number)) for number, draw in enumerate(_each(draws, self.choosing))
        ]

    def _evaluate(self, draw: Draw, check: bool) -> list[Level]:
        levels: list[Level] = []
        gaps: dict[int, float] = {}
        with smaller_models(self.view, draw.nested) as smaller:
            for count, choice in _each(draw.choices, self.choosing):
                with self.passes.paused():
                    found = self._of(choice, smaller)
                    neurons = None if choice.neurons is None else dict(choice.neurons)
                    levels.append(Level(choice.mask, neurons, dict(choice.report), found, choice.trace))
                    # A control may keep more than its budget: the same units are checked once.
                    key = choice.removed if choice.neurons is None else count
                    if check and count in self.checked and key not in gaps:
                        gaps[key] = largest_gap(self.task, choice, choice.smaller())
                del choice
        self.gap = max([self.gap, *gaps.values()])
        return levels

    def _of(self, choice: Choice, smaller: Callable[[Choice], nn.Module]) -> Evaluation:
        """The evaluation of a choice; of the task's own model, each distinct one is made once."""
        if choice.model is not self.view.model:
            with self.evaluation:
                return evaluate_model(self.task, choice.smaller())
        neurons = tuple(mask.numpy().tobytes() for mask in (choice.neurons or {}).values())
        key = choice.mask.numpy().tobytes(), neurons
        if key not in self._known:
            end = choice.neurons is None and self.ends.get(choice.removed == 0)
            if end and choice.removed in (0, len(choice.mask)):
                self._known[key], taken = end
                self.evaluation.add(taken)
            else:
                with self.evaluation:
                    self._known[key] = evaluate_model(self.task, smaller(choice))
        return self._known[key]


@contextmanager
def smaller_models(view: View, nested: bool) -> Iterator[Callable[[Choice], nn.Module]]:
    """Inside, a function that gives the smaller model of each choice, asked for in their order.

    Where they are ``nested`` it is one model that gets ever smaller, and passes over the same examples start at the
    lowest block that lost a head.
    """
    if not nested:
        yield Choice.smaller
        return
    model, heads, units = working_copy(view.model), view.heads, torch.arange(len(view.heads))
    with restarting(model, heads) as restart:

        def shrunk(choice: Choice) -> nn.Module:
            nonlocal heads, units
            keep = choice.mask[units]
            if not keep.all():
                for site in heads.site_of_unit[~keep].unique().tolist():
                    restart.changed(site)
                heads, units = shrink(model, keep, heads), units[keep]
            return model

        yield shrunk


Item = TypeVar("Item")


def _each(items: Iterable[Item], watch: Stopwatch) -> Iterator[Item]:
    """``items``, with the time that each takes to be made on ``watch``."""
    waiting = iter(items)
    while True:
        with watch:
            item = next(waiting, None)
        if item is None:
            return
        yield item
        del item  # its weights may be freed before the next one is made
