"""Running a model again and again on the same inputs, each time from the lowest block in which something changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from methods.heads.head_map import HeadMap

BATCH_BYTES = 16 * 2**20  # kept for one batch
TOTAL_BYTES = 512 * 2**20  # kept for all batches


def find_blocks(model: nn.Module, heads: HeadMap) -> list[nn.Module]:
    """The model's blocks in the order in which it holds them; empty where that is not one plain stack.

    It is one where every site lies in a child of the same ModuleList and runs once: no tied layers, no decoder beside
    an encoder.
    """
    stacks = set()
    for site in heads.sites:
        names = site.name.split(".")
        first = next((place for place, name in enumerate(names) if name.isdecimal()), None)
        if first is None or site.calls > 1:
            return []
        stacks.add(".".join(names[:first]))
    stack = model.get_submodule(stacks.pop())
    return list(stack) if not stacks and isinstance(stack, nn.ModuleList) else []


def block_of_site(heads: HeadMap) -> list[int]:
    """Index of the block that holds each site, for a model that is a plain stack."""
    return [site.layer for site in heads.sites]


@contextmanager
def restarting(
    model: nn.Module, heads: HeadMap, batch_bytes: int = BATCH_BYTES, total_bytes: int = TOTAL_BYTES
) -> Iterator[Restart]:
    """Inside, a forward pass on inputs seen before starts at the lowest block that ``Restart.changed`` named since.

    The model's own forward runs; only the blocks below are passed over, their outcome put in their place. What is kept
    is the input of each block, (B, T, d), or of as many, evenly spread, as ``batch_bytes`` allow; when ``total_bytes``
    are used up, further inputs are run in full. Logits are those of a full pass, bit for bit; other outputs (hidden
    states, caches of keys) lack the blocks passed over. A model that is no plain stack of blocks, and any pass with
    gradients on, is run in full. The model is left as it was found; do not copy it inside.
    """
    restart = Restart(model, heads, batch_bytes, total_bytes)
    with ExitStack() as stack:
        stack.enter_context(replaced(model, restart._forward))
        for index, block in enumerate(restart.blocks):
            stack.enter_context(replaced(block, partial(restart._block, index)))
        yield restart


@contextmanager
def replaced(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Inside, the module runs ``forward(its own forward, *args, **kwargs)``; its hooks are run as ever."""
    own = vars(module).get("forward")
    module.forward = partial(forward, module.forward)
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own


@dataclass
class _Inputs:
    """What is kept of one batch: inputs of blocks by index, and the lowest block that changed since they were made."""

    of_block: dict[int, Tensor] = field(default_factory=dict)
    changed: int = 0


@dataclass
class _Pass:
    """One forward pass: the block that it starts at, where inputs come from or go, and how often a batch is in it."""

    start: int
    inputs: _Inputs | None
    keep: Callable[[int, Tensor], bool] = lambda index, hidden: False
    copies: int = 1
    previous: Tensor | None = None  # output of the block before


class Restart:
    """What ``restarting`` keeps; made there."""

    def __init__(self, model: nn.Module, heads: HeadMap, batch_bytes: int, total_bytes: int) -> None:
        self.blocks = find_blocks(model, heads)
        self._block_of_site = block_of_site(heads)
        self._batch_bytes, self._left = batch_bytes, total_bytes
        self._known: dict[Hashable, _Inputs] = {}
        self._last: _Inputs | None = None
        self._branch: tuple[int, int] | None = None
        self._pass: _Pass | None = None
        self._plain = len(self.blocks) > 1  # until the contrary is seen
        self._tried = False
        self._wrapped = False  # whether a block's output is a tuple of one tensor

    def changed(self, site: int) -> None:
        """Tell that the site with this index, and perhaps others above it, will run otherwise than before."""
        for inputs in self._known.values():
            inputs.changed = min(inputs.changed, self._block_of_site[site])

    @contextmanager
    def branching(self, site: int, copies: int) -> Iterator[None]:
        """Inside, run the last batch ``copies`` times over as one, (copies * B, ...), from the block of ``site``.

        The copies stand one after the other. The sites below must run as they did, and nothing is kept.
        """
        self._branch = self._block_of_site[site], copies
        try:
            yield
        finally:
            self._branch = None

    def _forward(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        key = _key(args, kwargs)
        if not self._plain or torch.is_grad_enabled() or key is None:
            self._last = None
            return self._run(_Pass(0, None), forward, args, kwargs)
        if self._branch is not None:
            block, copies = self._branch
            return self._run(_Pass(self._start(self._last, block), self._last, copies=copies), forward, args, kwargs)
        inputs = self._last = self._known.setdefault(key, _Inputs())
        start = self._start(inputs, inputs.changed)
        output = self._run(_Pass(start, inputs, self._keeper(inputs)), forward, args, kwargs)
        inputs.changed = len(self.blocks)
        if not self._tried and inputs.of_block:
            self._try(output, inputs, forward, args, kwargs)
        return output

    def _run(self, new: _Pass, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        self._pass = new
        try:
            return forward(*args, **kwargs)
        finally:
            self._pass = None

    def _try(self, output: Any, inputs: _Inputs, forward: Callable[..., Any], args: tuple, kwargs: dict) -> None:
        """Whether blocks can be passed over is tried once: a model may read more of them than the next one's input."""
        self._tried = True
        again = self._run(_Pass(max(inputs.of_block), inputs), forward, args, kwargs)
        self._plain = hasattr(output, "logits") and torch.equal(again.logits, output.logits)

    def _start(self, inputs: _Inputs | None, block: int) -> int:
        """The highest block, up to ``block``, whose input is there."""
        return max((index for index in inputs.of_block if index <= block), default=0) if inputs else 0

    def _keeper(self, inputs: _Inputs) -> Callable[[int, Tensor], bool]:
        def keep(index: int, hidden: Tensor) -> bool:
            size = hidden.numel() * hidden.element_size()
            fit = min(self._batch_bytes // size, len(self.blocks) - 1)
            # Of the blocks 1 to n - 1, ``fit`` evenly spread ones: those at which index * fit / (n - 1) steps up.
            steps = len(self.blocks) - 1
            if not index or index * fit // steps == (index - 1) * fit // steps:
                return False
            if index not in inputs.of_block:
                if size > self._left:
                    return False
                self._left -= size
            return True

        return keep

    def _block(self, index: int, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        now = self._pass
        if now is None or not self._plain:
            return forward(*args, **kwargs)
        hidden: Any = args[0] if args else kwargs.get("hidden_states")
        if index < now.start:
            if index == now.start - 1:
                assert now.inputs is not None
                kept = now.inputs.of_block[now.start]
                hidden = now.previous = kept.repeat(now.copies, 1, 1) if now.copies > 1 else kept
            return (hidden,) if self._wrapped else hidden
        if now.inputs is None:
            return forward(*args, **kwargs)
        version = getattr(hidden, "_version", None)
        output = forward(*args, **kwargs)
        self._wrapped = isinstance(output, tuple)
        result = output[0] if self._wrapped and len(output) == 1 else output
        chained = isinstance(hidden, Tensor) and hidden._version == version and (not index or hidden is now.previous)
        # Anything but a chain of (B, T, d), unchanged on the way, is beyond what can be passed over safely.
        if not (chained and isinstance(result, Tensor) and result.dim() == 3):
            self._plain = False
            self._known.clear()
            return output
        if now.keep(index, hidden):
            now.inputs.of_block[index] = hidden
        now.previous = result
        return output


def _key(args: tuple, kwargs: dict[str, Any]) -> Hashable | None:
    """Which inputs these are, by content; None where something else than tensors and plain values is among them."""
    parts: list[Hashable] = []
    for name, value in (*enumerate(args), *sorted(kwargs.items())):
        if isinstance(value, Tensor):
            content = value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
            parts.append((name, value.shape, value.dtype, content))
        elif value is None or isinstance(value, bool | int | float | str):
            parts.append((name, value))
        else:
            return None
    return tuple(parts)


@dataclass(frozen=True)
class Repeated:
    """A batch several times over, the copies one after the other."""

    inputs: dict[str, Tensor]
    labels: Tensor

    @classmethod
    def of(cls, batch: Any, copies: int) -> Repeated:
        """``copies`` times the inputs and labels of ``batch``."""
        inputs = {name: value.repeat(copies, *[1] * (value.dim() - 1)) for name, value in batch.inputs.items()}
        return cls(inputs, batch.labels.repeat(copies))
