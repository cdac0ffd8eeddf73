"""A method leaves model and process as it found them, or its cell fails: others will use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


class Touched(RuntimeError):
    """A method did not leave the model, or a switch of torch, as it found it."""


# What is to be as it was after a method: by what to call it, how to read it and how to put it.
SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "gradients being on": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's deterministic algorithms being on": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
}


def switches() -> dict[str, Any]:
    """How they are now, by what to call them."""
    return {name: read() for name, (read, _) in SWITCHES.items()}


@contextmanager
def kept_switches() -> Iterator[dict[str, Any]]:
    """Whatever happens inside to switches does not last. Yields how they were."""
    before = switches()
    try:
        yield before
    finally:
        for name, (read, put) in SWITCHES.items():
            if read() != before[name]:
                put(before[name])


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Raises Touched where weights of ``model``, or switches, are not after what happens inside what they were before.

    Weights are compared by a sum over their bits, which no rounding blurs.
    """
    weights = _sums(model)
    with kept_switches() as before:
        yield
        after = switches()
    if changed := [name for name, value in before.items() if after[name] != value]:
        raise Touched(f"the method changed {changed[0]} from {before[changed[0]]} to {after[changed[0]]}")
    left = _sums(model)
    if changed := [name for name, value in weights.items() if left.get(name) != value]:
        raise Touched(f"the method changed weights of the model: {changed[0]}, and {len(changed) - 1} others")


def _sums(model: nn.Module) -> dict[str, int]:
    """Of each weight and buffer, by name, the sum of its bits, as integers that wrap around."""
    sums = {}
    for name, value in model.state_dict().items():
        if not value.is_meta and value.element_size() in INTEGERS:
            bits = value.detach().contiguous().view(INTEGERS[value.element_size()])
            sums[name] = int(bits.sum(dtype=torch.int64))
    return sums
