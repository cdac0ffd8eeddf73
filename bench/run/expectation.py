"""What cells will take on a model that no record knows: estimated from its shape, passes and the machine's speed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch

from bench.analysis.naming import count
from bench.measure.status import duration
from bench.run.passes import SHARED, Calibration, over_calibration, over_test, trainings
from bench.run.shapes import Shape, data_of, shape_of, tested_tokens
from bench.suites.cells import Cell, open_task
from bench.suites.parse import MethodSpec
from tasks.contract import Task
from tasks.language_model import LanguageModel
from tasks.models.seeded import SeededTask
from tasks.models.train import Recipe, fine_tuning
from tasks.request import TaskSpec

EPOCHS = 3  # that the task trains its own model for
BOTH = 3  # a pass forward and backward, in passes forward
MB = 2**20


class Work(NamedTuple):
    """What a cell sends through the model."""

    calibration: Calibration | None  # passes over the calibration set; None if they are not known
    trainings: int
    steps: int  # of each training
    test: int  # passes over the test split


@dataclass(frozen=True)
class Expectation:
    """What the ``cells`` of one task and model take. models: how many are trained first; speed: operations a second."""

    task: SeededTask
    cells: Sequence[Cell]
    models: int
    shape: Shape
    speed: float

    @property
    def seconds(self) -> float:
        """Of one process for all of it, without methods whose passes are not known, and without timing."""
        seeds = len({cell.seed for cell in self.cells})
        shared = SHARED * seeds * self.texts_tested
        return (
            self.models * self._to_train + sum(self._texts(self.work(cell.method)) for cell in self.cells) + shared
        ) * self._per_text

    @cached_property
    def calibration(self) -> int:
        """Examples in the calibration set of a cell."""
        wanted, held_out = self.cells[0], self.task.held_out
        pool = held_out if held_out and wanted.calibration_from == "held-out" else len(data_of(self.task).train)
        return min(wanted.calibration, pool)

    def work(self, method: MethodSpec) -> Work:
        """What a cell of ``method`` takes."""
        removed, heads = self.cells[0].removed, self.shape.heads
        passes = over_calibration(method, heads, removed)
        recipe, number = self._recipe, trainings(method, removed, len(heads))
        epochs = method.options.get("epochs") or EPOCHS * self.cells[0].training
        steps = recipe.shortened(epochs / EPOCHS).max_steps if number else 0
        return Work(passes, number, steps, over_test(method, removed))

    def lines(self) -> Iterator[str]:
        """What is expected, as text."""
        shape, cell = self.shape, self.cells[0]
        texts, tokens = shape.batch
        kept = "unknown" if shape.activations is None else f"{shape.activations / MB:,.0f} MB"
        name = f"{cell.task.task}: {cell.data}, {cell.model}"
        yield f"{name}: {count(len(shape.heads), 'head')}, {shape.parameters:,} parameters"
        yield (
            f"  memory: weights {shape.weights / MB:,.0f} MB; activations for gradients {kept} (batch of {texts} x "
            f"{tokens} tokens); where weights are trained, gradients {shape.weights / MB:,.0f} MB and optimizer "
            f"{2 * shape.weights / MB:,.0f} MB more"
        )
        if self.models:
            steps, took = self._recipe.max_steps, self._told(self._to_train)
            yield f"  training: {count(self.models, 'model')} of {steps} steps, about {took} each"
        yield (
            f"  of each cell, passes over {self.calibration} calibration texts (forward + backward), and evaluations "
            f"on the test split ({SHARED} more of each model are shared):"
        )
        alike: dict[Work, list[str]] = defaultdict(list)
        for method in dict.fromkeys(cell.method for cell in self.cells):
            alike[self.work(method)].append(method.label)
        for work, labels in sorted(alike.items(), key=lambda item: self._texts(item[0])):
            yield f"    {self._passes(work)}: {', '.join(labels)}"

    def _passes(self, work: Work) -> str:
        if work.calibration is None:
            return f"not known, and {work.test}"
        forward, backward, exact = work.calibration
        most = "" if exact or work.trainings else "at most "
        trained = f", {count(work.trainings, 'training')} of {work.steps} steps" if work.trainings else ""
        return f"{most}{forward:g} + {backward:g}, and {work.test}{trained}, about {self._told(self._texts(work))}"

    def _texts(self, work: Work) -> float:
        """Passes forward of one text that take as long as ``work``, where its passes are known."""
        forward, backward, _ = work.calibration or Calibration(0, 0)
        trained = work.trainings * work.steps * self._recipe.batch_size * BOTH
        return (forward + (BOTH - 1) * backward) * self.calibration + trained + work.test * self.texts_tested

    def _told(self, texts: float) -> str:
        return duration(texts * self._per_text)

    @property
    def _per_text(self) -> float:
        """Seconds of a text of average length forward."""
        return self.shape.flops / self.speed

    @cached_property
    def texts_tested(self) -> float:
        """Texts of average length with as many tokens as an evaluation has."""
        return tested_tokens(self.task, self.shape) / self.shape.tokens

    @cached_property
    def _recipe(self) -> Recipe:
        batch = 8 if isinstance(self.task, LanguageModel) else 32
        return fine_tuning(len(data_of(self.task).train) - self.task.held_out, epochs=EPOCHS, batch_size=batch)

    @property
    def _to_train(self) -> float:
        """Training and validating the model of a seed, in texts forward."""
        recipe = self._recipe
        validations = -(-recipe.max_steps // recipe.evaluate_every)
        trained = recipe.max_steps * recipe.batch_size * BOTH
        return trained + validations * len(data_of(self.task).validation)


def expectations(
    cells: Sequence[Cell], models: Mapping[TaskSpec, int], speed: Callable[[torch.dtype], float]
) -> Iterator[Expectation]:
    """What the ``cells`` take, task by task; nothing of tasks whose adapter is another package's.

    models: how many of each task are trained first. speed: operations a second in a data type.
    """
    of_task: dict[Task, list[Cell]] = defaultdict(list)
    for cell in cells:
        of_task[open_task(cell.task)].append(cell)
    for task, own in of_task.items():
        if isinstance(task, SeededTask) and task.folder is not None:
            shape = shape_of(task)
            yield Expectation(task, own, models.get(task.spec, 0), shape, speed(shape.dtype))
