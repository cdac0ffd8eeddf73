"""What is kept of the passes over one batch, so that later ones need not start at the bottom."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class Room:
    """Bytes that may be kept: of one batch, and in all batches from now on."""

    batch: int
    left: int


@dataclass
class Kept:
    """Of one batch, inputs of blocks and contexts of their heads, by index of the block.

    Contexts, (B, T, H * d_h), are kept where inputs, (B, T, d), and contexts of all blocks fit; else inputs alone, of
    as many blocks, evenly spread, as fit.
    """

    room: Room
    blocks: int
    inputs: dict[int, Tensor] = field(default_factory=dict)
    contexts: dict[int, Tensor] = field(default_factory=dict)
    changed: int = 0  # the lowest block that changed since they were made
    length: int = 0  # tokens; known after the first pass
    read: Tensor | None = None  # (B,) the position of the top block's output that logits come from, if it is one

    def start(self, block: int) -> int:
        """The highest block, up to ``block``, whose input is there."""
        return max((index for index in self.inputs if index <= block), default=0)

    def keep_input(self, index: int, hidden: Tensor) -> None:
        """Keep the input of a block, if there is room for it."""
        size = _bytes(hidden)
        fit = min(self.room.batch // size, self.blocks - 1)
        # Of the blocks 1 to n - 1, ``fit`` evenly spread ones: those at which index * fit / (n - 1) steps up.
        steps = self.blocks - 1
        if index and index * fit // steps > (index - 1) * fit // steps and self._take(index, size, self.inputs):
            self.inputs[index] = hidden

    def keep_context(self, index: int, context: Tensor) -> None:
        """Keep the contexts of a block's heads, if there is room for it."""
        size = _bytes(context)
        whole = (2 * self.blocks - 1) * size  # of inputs and contexts of all blocks, which are about as wide
        enough = whole <= self.room.batch and (self.contexts or whole <= self.room.left)
        if enough and self._take(index, size, self.contexts):
            self.contexts[index] = context

    def lost(self, index: int, columns: Tensor | None) -> None:
        """A block changed; of its contexts ``columns`` stay as they are, or None."""
        self.changed = min(self.changed, index)
        context = self.contexts.pop(index, None)
        if context is None:
            return
        self.room.left += _bytes(context)
        if columns is not None and len(columns):
            left = self.contexts[index] = context[..., columns.to(context.device)]
            self.room.left -= _bytes(left)

    def _take(self, index: int, size: int, kept: dict[int, Tensor]) -> bool:
        """Whether there is room, which is then taken, unless it was before."""
        if index not in kept:
            if size > self.room.left:
                return False
            self.room.left -= size
        return True


def key_of(args: tuple, kwargs: dict[str, Any]) -> Hashable | None:
    """Which inputs these are, by content; None where something else than tensors and plain values is among them."""
    parts: list[Hashable] = []
    for name, value in (*enumerate(args), *sorted(kwargs.items())):
        if isinstance(value, Tensor):
            whole = value.detach().cpu().clone(memory_format=torch.contiguous_format)
            content = whole.reshape(-1).view(torch.uint8).numpy().tobytes()
            parts.append((name, value.shape, value.dtype, content))
        elif value is None or isinstance(value, bool | int | float | str):
            parts.append((name, value))
        else:
            return None
    return tuple(parts)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
