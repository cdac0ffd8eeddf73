"""A method must leave the model's weights and torch's global switches as it found them: other code uses them next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes per element

# Global switches by their name in messages: how to read one, and how to set it.
SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "gradients being on": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's deterministic algorithms being on": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
}


class SideEffect(RuntimeError):
    """A method changed the model, or a global switch of torch."""


def switches() -> dict[str, Any]:
    """Current value of each switch, by name."""
    return {name: read() for name, (read, _) in SWITCHES.items()}


@contextmanager
def restored_switches() -> Iterator[dict[str, Any]]:
    """Restore all switches on leaving, also after an error. Yields their values on entering."""
    before = switches()
    try:
        yield before
    finally:
        for name, (read, restore) in SWITCHES.items():
            if read() != before[name]:
                restore(before[name])


@contextmanager
def no_side_effects(model: nn.Module) -> Iterator[None]:
    """Raise SideEffect if the code inside changes a switch or a weight of ``model``. Switches are restored in any case.

    Weights are compared by checksums of their bits, so no change is lost to rounding.
    """
    weights = _checksums(model)
    with restored_switches() as before:
        yield
        after = switches()
    if changed := [name for name, value in before.items() if after[name] != value]:
        raise SideEffect(f"the method changed {changed[0]} from {before[changed[0]]} to {after[changed[0]]}")
    left = _checksums(model)
    if changed := [name for name, value in weights.items() if left.get(name) != value]:
        others = f" and {len(changed) - 1} others" if len(changed) > 1 else ""
        raise SideEffect(f"the method changed weights of the model: {changed[0]}{others}")


def _checksums(model: nn.Module) -> dict[str, int]:
    """Sum of the bits of each weight and buffer, by name, as integers that wrap around."""
    sums = {}
    for name, value in model.state_dict().items():
        if not value.is_meta and value.element_size() in INTEGERS:
            bits = value.detach().contiguous().view(INTEGERS[value.element_size()])
            sums[name] = int(bits.sum(dtype=torch.int64))
    return sums
