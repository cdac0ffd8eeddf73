"""What a task has to offer, and the registry of task adapters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from tasks.data.dataset import Dataset
from tasks.data.encode import Batch
from tasks.models.cache import Cache
from tasks.outcomes import Outcomes
from tasks.request import CalibrationSource, TaskSpec
from tasks.seeds import Seeds


class Training(Protocol):
    """Batches to train gates or weights on, and the optimizer that the task trains its own model with.

    The same protocol as ``methods.contract.view.Training``: neither of the two packages imports the other.
    """

    steps: int  # optimizer steps that a method may take for one budget
    epoch_steps: int  # of one pass over the training split
    clip: float  # largest norm of the gradient of all weights together

    def batches(self) -> Iterator[Batch]:
        """Batches of shuffled training examples, without end; each call yields the same ones."""

    def in_batches_of(self, size: int) -> Training:
        """As many epochs in batches of ``size`` examples, in more steps or fewer."""

    def optimizer(self, model: nn.Module) -> tuple[Optimizer, LRScheduler]:
        """The task's own optimizer for the weights of ``model``, with its schedule over ``steps``."""

    def with_steps(self, steps: int) -> Training:
        """The same training with another number of steps, 1 or more."""

    def initial_weights(self) -> Mapping[str, Tensor]:
        """The weights that the training of the task's own model starts from. Raises ValueError if it is not trained."""


class Task(ABC):
    """Texts, a model for each seed, a loss for a batch, and an evaluation with an outcome for each example."""

    version: ClassVar[int] = 1  # raise it when a change to the adapter changes results for the same data and model

    def __init__(self, spec: TaskSpec):
        self.spec = spec

    @classmethod
    def about(cls) -> list[str]:
        """Lines for `headbench list tasks`: what it expects of data, and what is built in."""
        return []

    @property
    @abstractmethod
    def data_name(self) -> str:
        """Name of the data set."""

    @property
    def own_data(self) -> Dataset | None:
        """The splits of data, with remarks on them and the model; None where the user gave neither."""
        return None

    @property
    @abstractmethod
    def model_name(self) -> str:
        """Name of the model, as reports show it."""

    def seeds(self, seed: int) -> Seeds:
        """The seeds of all draws under ``seed``: the model's, those of its data, and the method's."""
        return Seeds(self.spec.task, self.data_name, self.model_name, seed)

    @property
    def held_out(self) -> int:
        """Training examples that the model of a seed is not trained on, for calibration; 0 if there are none."""
        return 0

    @property
    def trains(self) -> bool:
        """Whether the model of a seed is trained here, so that methods may start from where that training starts."""
        return False

    @property
    @abstractmethod
    def guessing_quality(self) -> float:
        """Quality, 0 to 1, without reading the question, such as by always predicting the most frequent label."""

    @abstractmethod
    def validate(self) -> nn.Module:
        """Check everything that could make a run fail. Returns the model, perhaps without weights. Raises TaskError."""

    @abstractmethod
    def fingerprints(self, seed: int) -> dict[str, Any]:
        """Digests of everything that determines the data and the model of ``seed``, before any training.

        By name, as JSON has values. ``data`` is of the data alone, and ``model`` may hold ``weights``, of those that
        are given: both say whether cells of several seeds are of the same data and model.
        """

    @abstractmethod
    def prepared(self, seed: int, cache: Cache) -> bool:
        """Whether the model of ``seed`` is available without training."""

    @abstractmethod
    def prepare(self, seed: int, cache: Cache, device: torch.device) -> dict[str, Any]:
        """Train the model of ``seed`` if needed; the report on its training (empty if there is none)."""

    @abstractmethod
    def open(self, seed: int, cache: Cache, device: torch.device) -> nn.Module:
        """The model of ``seed``, in evaluation mode."""

    @abstractmethod
    def save_tokenizer(self, folder: Path) -> None:
        """Write everything that the opened model needs other than its weights to ``folder``."""

    @abstractmethod
    def calibration(
        self, seed: int, size: int, device: torch.device, source: CalibrationSource = "held-out"
    ) -> Sequence[Batch]:
        """``size`` examples (all, if fewer) drawn by ``seed``, in batches.

        source: ``held-out`` for training examples that the model of ``seed`` was not trained on, if there are any;
            ``train`` for those of its training split.
        """

    @abstractmethod
    def training(self, seed: int, share: float, device: torch.device) -> Training:
        """Batches of the training split without what is held out, in an order drawn by ``seed``, and the optimizer.

        share: steps to take, as a share (0 to 1) of the most steps that the task trains its own model for.
        """

    @abstractmethod
    def probe(self, size: int, device: torch.device) -> Batch:
        """``size`` test examples of median length in one batch, repeated if there are fewer: the input for timing.

        Where texts are there for methods alone, training examples.
        """

    @abstractmethod
    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits of ``model``: (B, classes), or (B, T, vocabulary) with zeros at padding."""

    @abstractmethod
    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Loss of each example, (B,)."""

    @abstractmethod
    def evaluate(self, model: nn.Module) -> Outcomes:
        """Outcomes of ``model`` on the test split, in the data set's order.

        Raises FloatingPointError where logits are not finite.
        """


TASKS: dict[str, type[Task]] = {}


def task(name: str) -> Callable[[type[Task]], type[Task]]:
    """Register a task adapter under ``name``.

    Raises ValueError if the name is taken, TypeError if the adapter is not a Task or lacks some of its methods.
    """

    def register(adapter: type[Task]) -> type[Task]:
        if not (isinstance(adapter, type) and issubclass(adapter, Task)):
            raise TypeError(f"task {name!r}: expected a subclass of tasks.contract.Task, not {adapter!r}")
        if missing := sorted(adapter.__abstractmethods__):
            raise TypeError(f"task {name!r}: {adapter.__name__} does not define {', '.join(missing)}")
        if name in TASKS:
            raise ValueError(f"task {name!r} of {adapter.__module__} is already registered by {TASKS[name].__module__}")
        TASKS[name] = adapter
        return adapter

    return register
