"""The training loop of methods, on the batches of a view."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Literal, Protocol

import torch
from torch import Tensor, nn

from methods.contract.options import OptionError
from methods.contract.trace import Trace
from methods.contract.view import Training, View
from methods.training.tracing import Recorder

HALF_PRECISION = (torch.bfloat16, torch.float16)


class Stepper(Protocol):
    """An optimizer, or a schedule of its learning rate."""

    def step(self) -> object: ...


def training_of(view: View) -> Training:
    """The training split of the view. Raises ValueError if it has none."""
    if view.training is None:
        raise ValueError("this method trains, and the view has no training examples")
    return view.training


Start = Annotated[
    Literal["finetuned", "pretrained"],
    "train from the task's model, or from the model that its training started from",
]


def started(view: View, start: Literal["finetuned", "pretrained"]) -> View:
    """The view to train from: its own model, or a copy with the weights from which the task's own training started.

    Raises OptionError if the task takes its model as it is.
    """
    if start == "finetuned":
        return view
    try:
        weights = training_of(view).initial_weights()
    except ValueError as error:
        raise OptionError(f"start={start}: {error}") from error
    model = copy.deepcopy(view.model)
    model.load_state_dict(weights)
    return dataclasses.replace(view, model=model)


def for_epochs(view: View, epochs: float) -> View:
    """The view with a training of ``epochs`` passes over the training split; as it is if that is 0."""
    if not epochs:
        return view
    training = training_of(view)
    return dataclasses.replace(view, training=training.with_steps(max(1, round(epochs * training.epoch_steps))))


@contextmanager
def training_copy(view: View, seed: int) -> Iterator[nn.Module]:
    """Yield a copy of the view's model to train, in training mode; on leaving, it is frozen and in evaluation mode.

    Inside, gradients are on and torch draws from ``seed``, as for dropout. The model of the view and the global random
    states stay as they were.
    """
    model = copy.deepcopy(view.model).train()
    model.zero_grad()
    on_gpu = next(model.parameters()).device.type == "cuda"
    # torch.manual_seed seeds all GPUs, also for a model that is on none; and a forked process cannot ask them.
    seeded = torch.manual_seed if on_gpu else torch.default_generator.manual_seed
    with torch.random.fork_rng(range(torch.cuda.device_count()) if on_gpu else []), torch.enable_grad():
        seeded(seed)
        yield model
    model.eval().requires_grad_(False)


def to_float32(weights: Sequence[Tensor]) -> list[torch.dtype]:
    """Turn ``weights`` in half precision into float32, in place: they would lose small steps to rounding.

    Returns their former dtypes, for ``to_dtypes``.
    """
    dtypes = [weight.dtype for weight in weights]
    for weight in weights:
        weight.data = weight.data.float() if weight.dtype in HALF_PRECISION else weight.data
    return dtypes


def to_dtypes(weights: Sequence[Tensor], dtypes: Sequence[torch.dtype]) -> None:
    """Turn ``weights`` into ``dtypes``, in place."""
    for weight, dtype in zip(weights, dtypes, strict=True):
        weight.data = weight.data.to(dtype)


def train(
    view: View,
    model: nn.Module,
    groups: Sequence[Sequence[Tensor]],
    steppers: Sequence[Stepper],
    *,
    what: str,
    learning_rate: float,
    before_step: Callable[[int], Tensor | None] = lambda step: None,
    penalty: Callable[[], Tensor] | None = None,
) -> Trace:
    """Take all training steps of the view with ``model``, on the mean task loss of a batch plus ``penalty()``.

    groups: the tensors to train; the gradient of each group is clipped separately.
    steppers: optimizers and schedules of ``groups``, in the order in which they step.
    before_step: called with the number of each step, from 0; returns the gates of the units in it, (units,) on the CPU,
        or None where there are none.
    what, learning_rate: for the error message; 0 if the learning rate is not an option of the method.

    Returns the trace of the training. Raises FloatingPointError if the loss is not finite.
    """
    training = training_of(view)
    recorder = Recorder(training.steps)
    for step, batch in enumerate(islice(training.batches(), training.steps)):
        gates = before_step(step)
        logits = view.forward(model, batch)
        loss = view.loss_of_logits(logits, batch).mean()
        recorder.step(loss, logits, batch.labels, gates)
        if penalty is not None:
            loss = loss + penalty().to(loss)
        if not loss.isfinite():
            advice = f": try a learning_rate below {learning_rate}" if learning_rate else ""
            raise FloatingPointError(
                f"loss is {loss.item()} at step {step + 1} of {training.steps} of training {what}{advice}"
            )
        loss.backward()
        for group in groups:
            nn.utils.clip_grad_norm_(group, training.clip)
        for stepper in steppers:
            stepper.step()
        for group in groups:
            for tensor in group:
                tensor.grad = None
    return recorder.trace
