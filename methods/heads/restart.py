"""Running a model again and again on the same inputs, each time from the lowest block in which something changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from methods.heads.fan import Fan
from methods.heads.gate import gated
from methods.heads.head_map import HeadMap
from methods.heads.split import SplitBlock, at, first_token, last_token, replaced, spread

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
    are used up, further inputs are run in full.

    Where the logits read one position of the top block alone, such as that of [CLS], its attention is all that runs at
    the others. That is found out by trial, for each batch: nothing but NaN at all other positions must leave the logits
    as they are, bit for bit; and those positions are NaN from then on, so that reading them would show.

    Logits are those of a full pass, bit for bit where the top block runs at every position, and up to the rounding of
    matrix products of another shape where it does not. Other outputs (hidden states, caches of keys) lack what was
    passed over. A model that is no plain stack of blocks, and any pass with gradients on, is run in full. The model is
    left as it was found; do not copy it inside.
    """
    restart = Restart(model, heads, batch_bytes, total_bytes)
    with ExitStack() as stack:
        stack.enter_context(replaced(model, restart._forward))
        for index, block in enumerate(restart.blocks):
            stack.enter_context(replaced(block, partial(restart._block, index)))
            stack.enter_context(restart._parts[index].watched())
        yield restart


@dataclass
class _Inputs:
    """What is kept of one batch: inputs of blocks by index, and the lowest block that changed since they were made."""

    of_block: dict[int, Tensor] = field(default_factory=dict)
    changed: int = 0
    length: int = 0  # tokens; known after the first pass
    read: Tensor | None = None  # (B,) the position of the top block's output that logits come from, if it is one


@dataclass
class _Pass:
    """One forward pass."""

    start: int = 0  # the block that it starts at
    hidden: Tensor | None = None  # the input of that block; None where the model makes it
    read: Tensor | None = None  # (B,) position at which the top block's output is wanted; None is everywhere
    fan: Fan | None = None  # copies of the batch that are to be made on the way
    trial: bool = False  # run every block in parts, the top one with NaN wherever ``read`` is not
    keep: Callable[[int, Tensor], bool] = lambda index, hidden: False
    kept: dict[int, Tensor] = field(default_factory=dict)
    previous: Tensor | None = None  # output of the block before


class Restart:
    """What ``restarting`` keeps; made there."""

    def __init__(self, model: nn.Module, heads: HeadMap, batch_bytes: int, total_bytes: int) -> None:
        self.blocks = find_blocks(model, heads)
        self._block_of_site = block_of_site(heads)
        if sorted(self._block_of_site) != list(range(len(self.blocks))):  # not one site in every block
            self.blocks = []
        self._parts = [SplitBlock(model, heads.sites[self._block_of_site.index(i)]) for i in range(len(self.blocks))]
        self._batch_bytes, self._left = batch_bytes, total_bytes
        self._known: dict[Hashable, _Inputs] = {}
        self._last: _Inputs | None = None
        self._model, self._heads = model, heads
        self._copies = False  # whether the pass is over copies of the last batch
        self._fan: Fan | None = None
        self._pass: _Pass | None = None
        self._plain = len(self.blocks) > 1  # until the contrary is seen
        self._tried = False
        self._splits = False  # whether blocks may run in parts
        self._readers = [first_token, last_token]
        self._wrapped = False  # whether a block's output is a tuple of one tensor

    def changed(self, site: int) -> None:
        """Tell that the site with this index, and perhaps others above it, will run otherwise than before."""
        for inputs in self._known.values():
            inputs.changed = min(inputs.changed, self._block_of_site[site])

    @contextmanager
    def without(self, units: Sequence[int], rows: int) -> Iterator[None]:
        """Inside, run the last batch once for each of ``units``, without it, as one: (copies * B, ...).

        rows: B.

        The units are of one site. The copies stand one after the other; their inputs are the batch's, repeated. They
        are made behind the attention of the site, so that it and all below runs once. The model must run as it did, and
        gates around this are the same for all examples. Nothing is kept.
        """
        self._copies = True
        try:
            # Were a text as long as there are rows, rows of the batch could not be told from positions.
            if self._splits and self._last is not None and self._last.length != rows * len(units):
                self._fan = Fan.of(self._heads, units, rows)
                yield
            else:
                gates = (1 - torch.eye(len(self._heads)))[list(units)].T  # (units, copies)
                with gated(self._model, gates.repeat_interleave(rows, 1), self._heads):
                    yield
        finally:
            self._copies, self._fan = False, None

    def _forward(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        key = _key(args, kwargs) if self._plain and not torch.is_grad_enabled() else None
        if key is None:
            self._last = None
            return forward(*args, **kwargs)
        run = partial(self._run, forward, args, kwargs)
        if self._copies:
            return run(self._fanned(self._fan)) if self._fan else forward(*args, **kwargs)
        new = key not in self._known
        inputs = self._last = self._known.setdefault(key, _Inputs())
        start = self._start(inputs, inputs.changed)
        now = _Pass(start, inputs.of_block.get(start), inputs.read, keep=self._keeper(inputs), kept=inputs.of_block)
        output = run(now)
        inputs.changed = len(self.blocks)
        if new and self._plain:
            top = now.previous
            assert top is not None
            inputs.length = top.shape[1]
            self._try(output, top, inputs, kwargs, run)
        return output

    def _fanned(self, fan: Fan) -> _Pass:
        """The pass over copies of the last batch."""
        assert self._last is not None
        start = self._start(self._last, fan.block)
        return _Pass(start, self._last.of_block.get(start), self._last.read, fan)

    def _run(self, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any], new: _Pass) -> Any:
        self._pass = new
        try:
            return forward(*args, **kwargs)
        finally:
            self._pass = None

    def _try(
        self, output: Any, top: Tensor, inputs: _Inputs, kwargs: dict[str, Any], run: Callable[[_Pass], Any]
    ) -> None:
        """Find out, at the first pass over a batch, what of it may be passed over from now on."""

        def same(now: _Pass) -> bool:
            return torch.equal(run(now).logits, output.logits)

        count = len(self.blocks)
        if not self._tried:  # a model may read more of its blocks than the next one's input
            self._plain = hasattr(output, "logits") and same(_Pass(count, top))
        if not self._plain:
            return
        for reader in tuple(self._readers):
            read = reader(kwargs, *top.shape[:2]).to(top.device)
            if same(_Pass(count, spread(read, at(read, top), top.shape[1]))):
                inputs.read, self._readers = read, [reader]
                break
        if not self._tried:
            self._tried = True
            with suppress(RuntimeError, TypeError, ValueError):  # of a block that does not run in parts
                self._splits = same(_Pass(read=inputs.read, trial=True))
        if not self._splits:
            inputs.read = None

    def _start(self, inputs: _Inputs, block: int) -> int:
        """The highest block, up to ``block``, whose input is there."""
        return max((index for index in inputs.of_block if index <= block), default=0)

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
        if index < now.start:
            hidden: Any = args[0] if args else kwargs.get("hidden_states")
            if index == now.start - 1:
                assert now.hidden is not None
                hidden = now.previous = now.hidden
            return (hidden,) if self._wrapped else hidden
        if now.fan is not None and index <= now.fan.block:
            args, kwargs = now.fan.once(args), now.fan.once(kwargs)
        hidden = args[0] if args else kwargs.get("hidden_states")
        version = getattr(hidden, "_version", None)
        read = now.read if index == len(self.blocks) - 1 else None
        if now.trial or read is not None or (now.fan is not None and index == now.fan.block):
            output = self._in_parts(index, now, hidden, read, forward, args, kwargs)
        else:
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
            now.kept[index] = hidden
        now.previous = result
        return output

    def _in_parts(
        self,
        index: int,
        now: _Pass,
        hidden: Tensor,
        read: Tensor | None,
        forward: Callable[..., Any],
        args: tuple,
        kwargs: dict[str, Any],
    ) -> Any:
        """Output of a block whose attention is run apart from the rest, and the rest at ``read`` alone, if given."""
        part, length = self._parts[index], hidden.shape[1]
        context, output = part.context(forward, args, kwargs)
        if context is None:
            return output
        if read is not None:
            hidden, context = at(read, hidden), at(read, context)
            if now.trial:
                hidden, context = spread(read, hidden, length), spread(read, context, length)
        if now.fan is not None and index == now.fan.block:
            hidden, context = now.fan.spread_out(hidden, context)
        output = part.rest(forward, hidden, context, args, kwargs)
        if read is None or now.trial:
            return output
        return (spread(read, output[0], length),) if isinstance(output, tuple) else spread(read, output, length)


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
