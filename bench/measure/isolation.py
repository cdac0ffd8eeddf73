"""What a method leaves behind must change no output of the model: else its own levels and later cells are wrong.

Code of a method can change more than can be compared one by one: a buffer that no checkpoint holds, an attribute of a
module, the class of one. So outputs are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bench.measure.exactness import NotExact, gap_between, tolerance_of
from methods.contract.side_effects import SideEffect
from tasks.contract import Task

TEXTS = 8
ENTRIES = 1024  # logits of a position that are compared: held meanwhile, those of a large vocabulary would take GBs
_changed = False


def process_is_changed() -> bool:
    """Whether outputs of a model were found to change in this process, by something that may outlive the model."""
    return _changed


@contextmanager
def same_outputs(task: Task, model: nn.Module) -> Iterator[None]:
    """Raise SideEffect if ``model`` gives other logits after the code inside, beyond rounding, or is in training mode.

    What the code inside raises stays as it is, except NotExact: that heads seem to be removed wrongly follows from it.
    """
    global _changed
    before = _logits(task, model)
    raised: NotExact | None = None
    try:
        yield
    except NotExact as error:
        raised = error
    except BaseException:
        _changed |= not _is_same(task, model, before)
        raise
    training = [name or "the model" for name, module in model.named_modules() if module.training]
    if not _is_same(task, model, before):
        _changed = True
        raise SideEffect("the method changed what the model computes: its logits are others than before") from raised
    if training:
        raise SideEffect(f"the method left {training[0]} in training mode") from raised
    if raised:
        raise raised


def _is_same(task: Task, model: nn.Module, before: Tensor) -> bool:
    try:
        return gap_between(_logits(task, model), before) <= tolerance_of(before.dtype)
    except Exception:  # of any kind: it may be what was left behind that fails
        return False


@torch.no_grad()
def _logits(task: Task, model: nn.Module) -> Tensor:
    model.eval()
    batch = task.probe(TEXTS, next(model.parameters()).device)
    return task.logits(model, batch)[..., :ENTRIES].clone()
