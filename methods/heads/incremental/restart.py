"""Running a model again and again on the same inputs, each time from the lowest block in which something changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from methods.heads.finding.blocks import block_of_site, find_blocks
from methods.heads.finding.head_map import HeadMap
from methods.heads.incremental.activation_store import Kept, Room, key_of
from methods.heads.incremental.head_copies import Fan
from methods.heads.incremental.split_block import SplitBlock, at, first_token, last_token, replaced, spread
from methods.heads.watching.gate import gated

BATCH_BYTES = 16 * 2**20  # kept for one batch
TOTAL_BYTES = 512 * 2**20  # kept for all batches


@contextmanager
def restarting(
    model: nn.Module, heads: HeadMap, batch_bytes: int = BATCH_BYTES, total_bytes: int = TOTAL_BYTES
) -> Iterator[Restart]:
    """Inside, a forward pass on inputs seen before starts at the lowest block that ``Restart.changed`` named since.

    The model's own forward runs; only the blocks below are passed over, their outcome put in their place, and the
    attention of that block itself where it only lost heads. What is kept is the input of each block, (B, T, d), and the
    contexts of its heads, or of as many inputs, evenly spread, as ``batch_bytes`` allow; when ``total_bytes`` are used
    up, further inputs are run in full.

    Where the logits read one position of the top block alone, such as that of [CLS], its keys and values are all that
    is made at the others. That is found out by trial, for each batch: nothing but NaN at all other positions must leave
    the logits as they are, bit for bit; and those positions are NaN from then on, so that reading them would show.

    Logits are those of a full pass, bit for bit where the top block runs at every position, and up to the rounding of
    matrix products of another shape where it does not. Other outputs (hidden states, caches of keys) lack what was
    passed over. A model that is no plain stack of blocks, and any pass with gradients on or in inference mode, is run
    in full. The model is left as it was found; do not copy it inside.
    """
    restart = Restart(model, heads, batch_bytes, total_bytes)
    with ExitStack() as stack:
        signature = inspect.signature(model.forward)
        stack.enter_context(replaced(model, restart._forward))
        cast(Any, model.forward).__signature__ = signature  # which ``generate`` reads, to know what to prepare
        for index, block in enumerate(restart.blocks):
            stack.enter_context(replaced(block, partial(restart._block, index)))
            stack.enter_context(restart._parts[index].watched())
        yield restart


@dataclass
class _Pass:
    """One forward pass."""

    start: int = 0  # the block that it starts at
    hidden: Tensor | None = None  # the input of that block; None where the model makes it
    context: Tensor | None = None  # the contexts of its heads; None where they are to be made
    read: Tensor | None = None  # (B,) position at which the top block's output is wanted; None is everywhere
    fan: Fan | None = None  # copies of the batch that are to be made on the way
    trial: bool = False  # run every block in parts, the top one with NaN wherever ``read`` is not
    kept: Kept | None = None  # where to keep what comes by
    previous: Tensor | None = None  # output of the block before


class Restart:
    """What ``restarting`` keeps; made there."""

    def __init__(self, model: nn.Module, heads: HeadMap, batch_bytes: int, total_bytes: int) -> None:
        self.blocks = find_blocks(model, heads)
        self._block_of_site = block_of_site(heads)
        if sorted(self._block_of_site) != list(range(len(self.blocks))):  # not one site in every block
            self.blocks = []
        self._parts = [SplitBlock(model, heads.sites[self._block_of_site.index(i)]) for i in range(len(self.blocks))]
        self._room = Room(batch_bytes, total_bytes)
        self._known: dict[Hashable, Kept] = {}
        self._last: Kept | None = None
        self._model, self._heads = model, heads
        self._copies = False  # whether the pass is over copies of the last batch
        self._fan: Fan | None = None
        self._pass: _Pass | None = None
        self._plain = len(self.blocks) > 1  # until the contrary is seen
        self._tried = False
        self._splits = False  # whether blocks may run in parts
        self._narrow: bool | None = None  # whether the top block may ask where it is read alone; None until tried
        self._readers = [first_token, last_token]
        self._wrapped = False  # whether a block's output is a tuple of one tensor

    def changed(self, site: int) -> None:
        """Tell that the site with this index, and perhaps others above it, will run otherwise than before."""
        self._changed(site, None)

    def lost(self, site: int, left: Sequence[int]) -> None:
        """Tell that this site lost query heads, and that those ``left``, by their former numbers, are as they were."""
        self._changed(site, self._heads.sites[site].columns(sorted(left)))

    def _changed(self, site: int, columns: Tensor | None) -> None:
        for kept in self._known.values():
            kept.lost(self._block_of_site[site], columns)

    @contextmanager
    def without(self, units: Sequence[int], rows: int) -> Iterator[None]:
        """Inside, run the last batch once for each of ``units``, without it, as one: (copies * B, ...).

        rows: B.

        The units are of one site. The copies stand one after the other; their inputs are the batch's, repeated. They
        are made behind the attention of the site, so that it and all below runs once at most. The model must run as it
        did, and gates around this are the same for all examples. Nothing is kept. Logits are those of gates of zero, up
        to rounding.
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
        # In inference mode nothing would tell whether a block changed its input in place.
        runs_in_full = torch.is_grad_enabled() or torch.is_inference_mode_enabled()
        key = None if runs_in_full or not self._plain else key_of(args, kwargs)
        if key is None:
            self._last = None
            return forward(*args, **kwargs)
        run = partial(self._run, forward, args, kwargs)
        if self._copies:
            return run(self._fanned(self._fan)) if self._fan else forward(*args, **kwargs)
        new = key not in self._known
        kept = self._last = self._known.setdefault(key, Kept(self._room, len(self.blocks)))
        now = self._from(kept, kept.changed)
        now.kept = kept
        output = run(now)
        kept.changed = len(self.blocks)
        if new and self._plain:
            top = now.previous
            assert top is not None
            kept.length = top.shape[1]
            self._try(output, top, kept, kwargs, run)
        return output

    def _fanned(self, fan: Fan) -> _Pass:
        """The pass over copies of the last batch."""
        assert self._last is not None
        now = self._from(self._last, fan.block)
        now.fan = fan
        return now

    def _from(self, kept: Kept, block: int) -> _Pass:
        """A pass over a batch that starts at ``block``, or at the highest below whose input is there."""
        start = kept.start(block)
        context = kept.contexts.get(start) if start == block and self._splits else None
        return _Pass(start, kept.inputs.get(start), context, kept.read)

    def _run(self, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any], new: _Pass) -> Any:
        self._pass = new
        try:
            return forward(*args, **kwargs)
        finally:
            self._pass = None

    def _try(self, output: Any, top: Tensor, kept: Kept, kwargs: dict[str, Any], run: Callable[[_Pass], Any]) -> None:
        """Find out, at the first pass over a batch, what of it may be passed over from now on."""

        def same(now: _Pass) -> bool:
            return torch.equal(run(now).logits, output.logits)

        count = len(self.blocks)
        if not self._tried:  # a model may read more of its blocks than the next one's input
            self._plain = hasattr(output, "logits") and same(_Pass(count, top))
        if not self._plain or kept.length == 1:  # one position cannot show whether others are read
            return
        for reader in tuple(self._readers):
            read = reader(kwargs, *top.shape[:2]).to(top.device)
            if same(_Pass(count, spread(read, at(read, top), top.shape[1]))):
                kept.read, self._readers = read, [reader]
                break
        if not self._tried or (kept.read is not None and self._narrow is None):
            self._tried = True
            for self._narrow in (None,) if kept.read is None else (True, False):
                self._splits = False
                with suppress(RuntimeError, TypeError, ValueError):  # of a block that does not run in parts
                    self._splits = same(_Pass(read=kept.read, trial=True))
                if self._splits:
                    break
        if not self._splits:
            kept.read = None

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
        context = now.context if index == now.start else None
        forks = now.fan is not None and index == now.fan.block
        if now.trial or forks or context is not None or read is not None:
            if context is None:
                with self._parts[index].querying(read if self._narrow else None, now.trial):
                    context, output = self._parts[index].context(forward, args, kwargs)
            if context is not None:
                output = self._rest(index, now, hidden, context, read, forward, args, kwargs)
        else:
            context, output = self._parts[index].whole(forward, args, kwargs)
        self._wrapped = isinstance(output, tuple)
        result = output[0] if self._wrapped and len(output) == 1 else output
        chained = isinstance(hidden, Tensor) and hidden._version == version and (not index or hidden is now.previous)
        # Anything but a chain of (B, T, d), unchanged on the way, is beyond what can be passed over safely.
        if not (chained and isinstance(result, Tensor) and result.dim() == 3):
            self._plain = False
            self._known.clear()
            return output
        if now.kept is not None:
            now.kept.keep_input(index, hidden)
            if context is not None and (self._splits or not self._tried):
                now.kept.keep_context(index, context)
        now.previous = result
        return output

    def _rest(
        self,
        index: int,
        now: _Pass,
        hidden: Tensor,
        context: Tensor,
        read: Tensor | None,
        forward: Callable[..., Any],
        args: tuple,
        kwargs: dict[str, Any],
    ) -> Any:
        """Output of a block whose attention gave ``context``, at ``read`` alone, if given."""
        length = hidden.shape[1]
        if read is not None:
            hidden, context = at(read, hidden), at(read, context)
            if now.trial:
                hidden, context = spread(read, hidden, length), spread(read, context, length)
        part = self._parts[index]
        if now.fan is not None and index == now.fan.block:
            hidden = now.fan.spread_out(hidden)
            with part.projecting(now.fan.project):
                output = part.rest(forward, hidden, context, args, kwargs)
        else:
            output = part.rest(forward, hidden, context, args, kwargs)
        if read is None or now.trial:
            return output
        return (spread(read, output[0], length),) if isinstance(output, tuple) else spread(read, output, length)
