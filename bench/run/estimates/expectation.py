"""What cells will take on a model that no record knows: estimated from its shape, passes and the machine's speed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch

from bench.analysis.naming import count
from bench.measure.status import duration
from bench.run.estimates.passes import SHARED, Calibration, over_calibration, over_test, trainings, trains_weights
from bench.run.estimates.shapes import Shape, data_of, shape_of, tested_tokens
from bench.suites.cells import Cell, open_task
from bench.suites.parse import MethodSpec
from methods import METHODS
from tasks.contract import Task
from tasks.language_model import LanguageModel
from tasks.models.seeded import SeededTask
from tasks.models.train import Recipe, fine_tuning
from tasks.request import TaskSpec

BOTH = 3  # a pass forward and backward, in passes forward
COPIES = 4  # of the weights that training needs: gradients, two of the optimizer, and the best so far
MB = 2**20


class CellWork(NamedTuple):
    """What a cell sends through the model."""

    calibration: Calibration | None  # passes over the calibration set; None if they are not known
    trainings: int
    steps: int  # of each training
    batch: int  # texts in a step
    test: int  # passes over the test split


class Memory(NamedTuple):
    """Bytes that a process holds at one time or another, without libraries and data.

    narrowed: weights of a smaller model beside the whole, at most. activations: what a batch of so many texts keeps for
    gradients; None if not known. Where weights are trained, copies are what else is as large as they are.
    """

    weights: int
    narrowed: int
    texts: int
    activations: int | None
    copies: int = 0
    trained_texts: int = 0
    trained_activations: int | None = 0

    @property
    def most(self) -> int | None:
        """The most that is counted at once: a model is trained, scored, or evaluated.

        No bound: what operations need for a moment, and what the allocator keeps, comes on top.
        """
        if self.activations is None or self.trained_activations is None:
            return None
        return self.weights + max(self.narrowed, self.activations, self.copies + self.trained_activations)


@dataclass(frozen=True)
class Expectation:
    """What the ``cells`` of one task and model take.

    models: how many are trained first. speed: operations a second; None where they run on a processor or GPU that is
    not at hand, and no time is given.
    """

    task: SeededTask
    cells: Sequence[Cell]
    models: int
    shape: Shape
    speed: float | None

    @property
    def seconds(self) -> float:
        """Seconds that one process takes for all cells, without timing and methods whose passes are not known."""
        seeds = len({cell.seed for cell in self.cells})
        shared = SHARED * seeds * self.texts_tested
        return (
            self.models * self._to_train + sum(self._texts(self.work(cell.method)) for cell in self.cells) + shared
        ) * self._per_text

    @property
    def seconds_in_a_row(self) -> float:
        """Seconds of training a model and running the longest cell on it, which more processes cannot shorten."""
        longest = max((self._texts(self.work(cell.method)) for cell in self.cells), default=0.0)
        return (longest + self._to_train * bool(self.models)) * self._per_text

    @cached_property
    def memory(self) -> Memory:
        """What one process holds, without Python, libraries and data."""
        shape, methods = self.shape, {cell.method for cell in self.cells}
        neurons = any(method.options.get("parts") in ("both", "neurons") for method in methods)
        texts = min(shape.batch[0], self.calibration)
        found = Memory(shape.weights, shape.narrowed(neurons), texts, shape.activations(texts))
        by_method = max(map(self._held, methods), default=0)
        if not (self.models or by_method):
            return found
        weights_too = bool(self.models) or any(map(trains_weights, methods))
        trained = min(self._recipe.batch_size, self._trained_on)
        return found._replace(
            copies=(COPIES * weights_too + by_method) * shape.weights,
            trained_texts=trained,
            trained_activations=shape.activations(trained, trains=True),
        )

    @cached_property
    def calibration(self) -> int:
        """Examples in the calibration set of a cell."""
        wanted, held_out = self.cells[0], self.task.held_out
        pool = held_out if held_out and wanted.calibration_from == "held-out" else len(data_of(self.task).train)
        return min(wanted.calibration, pool)

    def _held(self, method: MethodSpec) -> int:
        """How many copies of the task's model ``method`` holds at once that it trains, or has trained."""
        number = self.work(method).trainings
        if METHODS[method.name].base != "voita":  # which keeps one for each level until it has the last
            return min(1, number)
        return min(number, len(self.cells[0].removed))

    def work(self, method: MethodSpec) -> CellWork:
        """What a cell of ``method`` takes."""
        removed, heads = self.cells[0].removed, self.shape.heads
        passes = over_calibration(method, self.shape, removed)
        recipe, number = self._recipe, trainings(method, removed, len(heads))
        epochs = method.options.get("epochs") or self._epochs * self.cells[0].training
        steps = recipe.shortened(epochs / self._epochs).max_steps if number else 0
        batch = method.options.get("batch_size") or recipe.batch_size
        return CellWork(passes, number, round(steps * recipe.batch_size / batch), batch, over_test(method, removed))

    def lines(self) -> Iterator[str]:
        """What is expected, as text."""
        shape, cell = self.shape, self.cells[0]
        name = f"{cell.task.task}: {cell.data}, {cell.model}"
        yield f"{name}: {count(len(shape.heads), 'head')}, {shape.parameters:,} parameters"
        yield f"  memory: {self._needed}"
        if self.models:
            steps, took = self._recipe.max_steps, self._told(self._to_train)
            yield f"  training: {count(self.models, 'model')} of {steps} steps{took and f'{took} each'}"
        yield (
            f"  of each cell, passes over {self.calibration} calibration texts (forward + backward), and evaluations "
            f"on the test split ({SHARED} more of each model are shared):"
        )
        alike: dict[CellWork, list[str]] = defaultdict(list)
        for method in dict.fromkeys(cell.method for cell in self.cells):
            alike[self.work(method)].append(method.label)
        for work, labels in sorted(alike.items(), key=lambda item: self._texts(item[0])):
            yield f"    {self._passes(work)}: {', '.join(labels)}"

    @property
    def _needed(self) -> str:
        """Memory, as text."""
        memory, tokens = self.memory, self.shape.batch[1]

        def kept(texts: int, size: int | None) -> str:
            known = "unknown" if size is None else f"{size / MB:,.0f} MB"
            return f"{known} (batch of {texts} x {tokens} tokens)"

        parts = [f"weights {memory.weights / MB:,.0f} MB", f"of smaller models {memory.narrowed / MB:,.0f} MB more"]
        parts.append(f"activations for gradients {kept(memory.texts, memory.activations)}")
        if memory.copies:
            parts.append(
                f"to train, {memory.copies / MB:,.0f} MB more for copies, gradients and optimizer, and activations "
                f"{kept(memory.trained_texts, memory.trained_activations)}"
            )
        most = "" if memory.most is None else f"about {memory.most / MB:,.0f} MB at the peak, without libraries: "
        return most + "; ".join(parts)

    def _passes(self, work: CellWork) -> str:
        if work.calibration is None:
            return f"not known, and {work.test}"
        forward, backward, exact = work.calibration
        most = "" if exact else "at most "
        trained = f", {count(work.trainings, 'training')} of {work.steps} steps" if work.trainings else ""
        return f"{most}{forward:g} + {backward:g}, and {work.test}{trained}{self._told(self._texts(work))}"

    def _texts(self, work: CellWork) -> float:
        """Passes forward of one text that take as long as ``work``, where its passes are known."""
        forward, backward, _ = work.calibration or Calibration(0, 0)
        trained = work.trainings * work.steps * work.batch * BOTH
        return (forward + (BOTH - 1) * backward) * self.calibration + trained + work.test * self.texts_tested

    def _told(self, texts: float) -> str:
        return f", about {duration(texts * self._per_text)}" if self.speed else ""

    @property
    def _per_text(self) -> float:
        """Seconds of a text of average length forward; NaN where that is not known."""
        return self.shape.flops / (self.speed or math.nan)

    @cached_property
    def texts_tested(self) -> float:
        """Texts of average length with as many tokens as an evaluation has."""
        return tested_tokens(self.task, self.shape) / self.shape.tokens

    @cached_property
    def _recipe(self) -> Recipe:
        """That of the task's own training, but for the length of texts."""
        language = isinstance(self.task, LanguageModel)
        return fine_tuning(self._trained_on, batch_size=8) if language else fine_tuning(self._trained_on)

    @property
    def _trained_on(self) -> int:
        """Texts that the task trains its own model on."""
        return len(data_of(self.task).train) - self.task.held_out

    @property
    def _epochs(self) -> float:
        """That the task trains its own model for."""
        return self._recipe.max_steps / -(-self._trained_on // self._recipe.batch_size)

    @property
    def _to_train(self) -> float:
        """Training and validating the model of a seed, in texts forward."""
        recipe = self._recipe
        validations = -(-recipe.max_steps // recipe.evaluate_every)
        trained = recipe.max_steps * recipe.batch_size * BOTH
        return trained + validations * len(data_of(self.task).validation)


def expectations(
    cells: Sequence[Cell], models: Mapping[TaskSpec, int], speed: Callable[[torch.dtype], float | None]
) -> Iterator[Expectation]:
    """What the ``cells`` take, task by task; nothing of tasks whose adapter is another package's.

    models: how many of each task are trained first. speed: operations a second in a data type; None if not known.
    """
    of_task: dict[Task, list[Cell]] = defaultdict(list)
    for cell in cells:
        of_task[open_task(cell.task)].append(cell)
    for task, own in of_task.items():
        if isinstance(task, SeededTask) and task.folder is not None:
            shape = shape_of(task)
            yield Expectation(task, own, models.get(task.spec, 0), shape, speed(shape.dtype))
