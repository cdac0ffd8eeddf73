"""What a task is to the rest of the suite, and the registry of task adapters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from tasks.answers import Answers
from tasks.data.dataset import Dataset
from tasks.data.encode import Batch
from tasks.models.cache import Cache
from tasks.request import TaskSpec


class Training(Protocol):
    """What a method that trains gates or weights trains on, and how the task trains its own model.

    As ``methods.contract.view.Training`` says it: neither of the two packages imports the other.
    """

    steps: int  # a method may take for one budget
    clip: float  # largest norm of the gradient of all weights together

    def batches(self) -> Iterator[Batch]:
        """Batches of shuffled training examples, without end; the same ones at each call."""

    def optimizer(self, model: nn.Module) -> tuple[Optimizer, LRScheduler]:
        """The task's own optimizer for the weights of ``model``, with its schedule over ``steps``."""


class Task(ABC):
    """Texts, a model for each seed, a loss for a batch, and an evaluation that gives an outcome for each example."""

    version: ClassVar[int] = 1  # raise it when a change makes other results of the same data and model

    def __init__(self, spec: TaskSpec):
        self.spec = spec

    @classmethod
    def about(cls) -> list[str]:
        """Lines for people: what it expects of data, and what it has built in."""
        return []

    @property
    @abstractmethod
    def data_name(self) -> str:
        """The data set's own name."""

    @property
    def own_data(self) -> Dataset | None:
        """The splits made of data of one's own, with what is to be told of them; None for what is built in."""
        return None

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The model's name, for people."""

    @property
    @abstractmethod
    def chance(self) -> float:
        """Quality, 0 to 1, of what knows nothing of the question, as always giving the commonest answer."""

    @abstractmethod
    def validate(self) -> nn.Module:
        """Look for all that could make a run fail; the model's shape, perhaps without weights. Raises TaskError."""

    @abstractmethod
    def fingerprints(self, seed: int) -> dict[str, Any]:
        """Digests of all that fixes the data and the model of ``seed``, before any training."""

    @abstractmethod
    def prepared(self, seed: int, cache: Cache) -> bool:
        """Whether the model of ``seed`` is there without any training."""

    @abstractmethod
    def prepare(self, seed: int, cache: Cache, device: torch.device) -> dict[str, Any]:
        """Train the model of ``seed`` if that is not done yet; the report of the training (empty if there is none)."""

    @abstractmethod
    def open(self, seed: int, cache: Cache, device: torch.device) -> nn.Module:
        """The model of ``seed``, in evaluation mode."""

    @abstractmethod
    def save_tokenizer(self, folder: Path) -> None:
        """Write what is needed to feed the opened model, other than its weights, to ``folder``."""

    @abstractmethod
    def calibration(self, seed: int, size: int, device: torch.device) -> Sequence[Batch]:
        """``size`` training examples (all, if fewer) drawn by ``seed``, in batches."""

    @abstractmethod
    def training(self, seed: int, share: float, device: torch.device) -> Training:
        """Batches of the training split, in an order drawn by ``seed``, and the task's own optimizer.

        ``share``, 0 to 1, is the part that it is for of the most steps that the task trains its own model for.
        """

    @abstractmethod
    def probe(self, size: int, device: torch.device) -> Batch:
        """``size`` test examples of usual length in one batch, repeated where there are fewer: the input for timing."""

    @abstractmethod
    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits of ``model``: (B, classes), or (B, T, vocabulary) with zeros where there is padding."""

    @abstractmethod
    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Loss of each example, (B,)."""

    @abstractmethod
    def answers(self, model: nn.Module) -> Answers:
        """What ``model`` makes of the test split, in the data set's order.

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
