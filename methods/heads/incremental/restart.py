"""Running a model again and again on the same inputs, each time from the lowest block in which something changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from methods.heads.finding.blocks import block_of_site, find_blocks
from methods.heads.finding.head_map import HeadMap
from methods.heads.incremental.forwards import replaced_forward
from methods.heads.incremental.top_block import first_token, last_token, place, run_at, take

STORED_BYTES = 512 * 2**20


@contextmanager
def restarting(model: nn.Module, heads: HeadMap, stored_bytes: int = STORED_BYTES) -> Iterator[Restart]:
    """Inside, a forward pass on inputs seen before starts at the lowest block that ``Restart.changed`` named since.

    The model's own forward runs, but the blocks below return their stored output. The input of every block, (B, T, d),
    is stored for one batch after another, as long as ``stored_bytes`` suffice; other batches run in full.

    Where the logits depend on one position of the top block's output alone, such as that of [CLS], only the attention
    of that block runs at the others. This is tried out for each batch: NaN at all other positions must leave the logits
    as they are, bit for bit.

    Logits are those of a full pass, bit for bit where the top block runs at every position, and up to the rounding of
    matrix products of another shape where it does not. Other outputs (hidden states, caches of keys) lack the blocks
    that did not run. A model that is not one plain stack of blocks always runs in full, and so does any pass with
    gradients enabled or in inference mode. On exit the model is as it was before; do not copy it inside.
    """
    restart = Restart(model, heads, stored_bytes)
    with ExitStack() as stack:
        restart._install(stack)
        yield restart


@dataclass
class _Batch:
    """What is known of one batch."""

    inputs: dict[int, Tensor] = field(default_factory=dict)  # (B, T, d) by index of the block
    fits: bool | None = None  # whether there was memory for the inputs; None until the first pass
    changed: int = 0  # the lowest block that changed since the last pass
    read: Tensor | None = None  # (B,) the position that logits are read from, if it is only one


@dataclass
class _Pass:
    """One forward pass."""

    start: int = 0  # the first block that runs
    hidden: Tensor | None = None  # its input; None if the model computes it
    read: Tensor | None = None  # (B,) the only position at which the top block's output is needed; None for all
    trial: bool = False  # see run_at
    batch: _Batch | None = None  # where to store the inputs of blocks
    top_input: Tensor | None = None
    previous: Tensor | None = None  # output of the block before


class Restart:
    """The stored state of ``restarting``, which makes it."""

    def __init__(self, model: nn.Module, heads: HeadMap, stored_bytes: int) -> None:
        blocks, of_site = find_blocks(model, heads), block_of_site(heads)
        one_site_at_most = len(set(of_site)) == len(of_site)  # blocks of linear attention have none
        self._blocks = blocks if one_site_at_most and len(blocks) > 1 else []
        self._block_of_site = of_site
        self._top_attention = model.get_submodule(heads.sites[of_site.index(max(of_site))].name)
        self._model, self._heads = model, heads
        self._bytes_left = stored_bytes
        self._batches: dict[Hashable, _Batch] = {}
        self._last: _Batch | None = None
        self._copies: tuple[int, int] | None = None  # while copies run: the block in which they differ, their number
        self._pass: _Pass | None = None
        self._is_chain = bool(self._blocks)  # whether blocks hand on nothing but the next one's input, so far as seen
        self._tried = False
        self._top_in_parts: bool | None = None  # whether the top block may run at one position; None until tried
        self._readers = [first_token, last_token]
        self._beside: tuple[None, ...] | None = None  # what blocks return beside one tensor; None if not in a tuple

    def changed(self, site: int) -> None:
        """Say that the site with this index, and perhaps others above it, runs differently from now on."""
        for batch in self._batches.values():
            batch.changed = min(batch.changed, self._block_of_site[site])

    @contextmanager
    def without(self, units: Sequence[int]) -> Iterator[None]:
        """Inside, run copies of the last batch, one for each of ``units``, which it lacks: (copies * B, ...).

        The units are of one site, and nothing has changed since the last batch ran; the copies are the batch's inputs,
        repeated. The blocks below do not run. Nothing is stored. Logits are those with gates of zero, up to rounding.

        Raises ValueError for units of several sites.
        """
        sites = {self._heads.units[unit].site for unit in units}
        if len(sites) != 1:
            raise ValueError(f"units left out side by side must be of one site, not of {len(sites)}")
        index = sites.pop()
        site = self._heads.sites[index]
        columns = [site.columns(self._heads.units[unit].heads) for unit in units]

        def leave_out(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            contexts = args[0].clone()  # (copies * B, T, H * d_h)
            for copy, some in zip(contexts.chunk(len(columns)), columns, strict=True):
                copy[..., some.to(copy.device)] = 0
            return (contexts, *args[1:])

        hook = self._model.get_submodule(site.output).register_forward_pre_hook(leave_out)
        self._copies = self._block_of_site[index], len(units)
        try:
            yield
        finally:
            self._copies = None
            hook.remove()

    def _install(self, stack: ExitStack) -> None:
        signature = inspect.signature(self._model.forward)
        stack.enter_context(replaced_forward(self._model, self._forward))
        cast(Any, self._model.forward).__signature__ = signature  # ``generate`` reads it to prepare its inputs
        for index, block in enumerate(self._blocks):
            stack.enter_context(replaced_forward(block, partial(self._block, index)))

    def _forward(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def run(now: _Pass) -> Any:
            self._pass = now
            try:
                return forward(*args, **kwargs)
            finally:
                self._pass = None

        # In inference mode nothing would show that a block changes its input in place.
        restarts = self._is_chain and not torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        if restarts and self._copies is not None and self._last is not None:
            block, copies = self._copies
            now = self._from(self._last, block)
            now.hidden = None if now.hidden is None else now.hidden.repeat(copies, 1, 1)
            return run(now)
        key = key_of(args, kwargs) if restarts and self._copies is None else None
        if key is None:
            self._last = None
            return forward(*args, **kwargs)
        new = key not in self._batches
        batch = self._last = self._batches.setdefault(key, _Batch())
        now = self._from(batch, batch.changed)
        now.batch = batch
        output = run(now)
        batch.changed = len(self._blocks)
        if not self._is_chain:
            self._last = None
        elif new:
            self._try(output, now, kwargs, run)
        return output

    def _from(self, batch: _Batch, block: int) -> _Pass:
        """A pass over ``batch`` that starts at ``block``, or at the highest one below whose input is stored."""
        start = max((index for index in batch.inputs if index <= block), default=0)
        return _Pass(start, batch.inputs.get(start), batch.read)

    def _try(self, output: Any, now: _Pass, kwargs: dict[str, Any], run: Callable[[_Pass], Any]) -> None:
        """Find out, after the first pass over a batch, what later passes may leave out."""

        def same(trial: _Pass) -> bool:
            return torch.equal(run(trial).logits, output.logits)

        top, count = now.previous, len(self._blocks)
        assert now.batch is not None
        if top is None:  # someone replaced the forward pass, which no longer runs the blocks
            self._is_chain, self._last = False, None
            self._batches.clear()
            return
        if not self._tried:  # a model may read other outputs of its blocks too
            self._tried = True
            self._is_chain = hasattr(output, "logits") and same(_Pass(count, top))
            if not self._is_chain:
                self._batches.clear()
                self._last = None
        length = top.shape[1]
        if not self._is_chain or length == 1:  # one position cannot show whether others are read
            return
        for reader in self._readers:
            read = reader(kwargs, *top.shape[:2]).to(top.device)
            if same(_Pass(count, place(read, take(read, top), length))):
                self._readers = [reader]
                if self._top_in_parts is None:
                    self._top_in_parts = False
                    with suppress(RuntimeError, TypeError, ValueError):  # of a block that does not run in parts
                        self._top_in_parts = same(_Pass(count - 1, now.top_input, read, trial=True))
                now.batch.read = read if self._top_in_parts else None
                return

    def _block(self, index: int, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        now = self._pass
        if now is None or not self._is_chain:
            return forward(*args, **kwargs)
        hidden: Any = args[0] if args else kwargs.get("hidden_states")
        if index < now.start:
            if index == now.start - 1:
                assert now.hidden is not None
                hidden = now.previous = now.hidden
            return hidden if self._beside is None else (hidden, *self._beside)
        version = getattr(hidden, "_version", None)
        is_top = index == len(self._blocks) - 1
        if is_top and now.read is not None:
            output = run_at(now.read, self._top_attention, forward, args, kwargs, now.trial)
        else:
            output = forward(*args, **kwargs)
        alone = isinstance(output, tuple) and all(each is None for each in output[1:])
        self._beside = output[1:] if alone else None
        result = output if self._beside is None else output[0]
        chained = isinstance(hidden, Tensor) and hidden._version == version and (not index or hidden is now.previous)
        # Restarting is safe only if each block takes the (B, T, d) of the one before, and does not change it.
        if not (chained and isinstance(result, Tensor) and result.dim() == 3):
            self._is_chain = False
            self._batches.clear()
            return output
        if now.batch is not None and index:
            self._store(now.batch, index, hidden)
        if is_top:
            now.top_input = hidden
        now.previous = result
        return output

    def _store(self, batch: _Batch, index: int, hidden: Tensor) -> None:
        if batch.fits is None:
            size = hidden.numel() * hidden.element_size() * (len(self._blocks) - 1)
            batch.fits = size <= self._bytes_left
            self._bytes_left -= size if batch.fits else 0
        if batch.fits:
            batch.inputs[index] = hidden


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable | None:
    """The content of a model's inputs, to look them up by; None if there are others than tensors and plain values."""
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
