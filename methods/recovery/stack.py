"""A model that is one plain stack of blocks, run one block at a time on all calibration batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache

from methods.heads import HeadMap
from methods.heads.finding.blocks import block_of_site, find_blocks
from methods.heads.incremental.forwards import replaced_forward
from methods.recovery.projection import Projection


class NotPlain(ValueError):
    """The model does more than to hand the output of each block to the next."""


class _Read(Exception):
    """Carries the input of an output projection out of a block, of which the rest is not run."""


@dataclass(frozen=True)
class _Call:
    """The arguments of a block other than its input."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    by_name: bool  # whether the input has a name too

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, _Call]:
        """The input, and the rest. A cache of keys is left out, as it would grow with each run."""
        by_name = not args
        hidden = kwargs["hidden_states"] if by_name else args[0]
        rest = {name: value for name, value in kwargs.items() if not (by_name and name == "hidden_states")}
        none = {name: None for name, value in rest.items() if isinstance(value, Cache)}
        return hidden, cls(tuple(None if isinstance(a, Cache) else a for a in args[1:]), rest | none, by_name)

    def run(self, block: nn.Module, hidden: Tensor) -> Tensor:
        if self.by_name:
            output = block(*self.args, **self.kwargs, hidden_states=hidden)
        else:
            output = block(hidden, *self.args, **self.kwargs)
        return output[0] if isinstance(output, tuple) else output


class Stack:
    """The blocks of ``model``, and for each calibration batch the input of the next block to run.

    batches, forward: as in a view. hidden: (B, T, d) by batch. Raises NotPlain for a model that cannot be run block by
    block.
    """

    def __init__(
        self, batches: Sequence[Any], forward: Callable[[nn.Module, Any], Any], model: nn.Module, heads: HeadMap
    ) -> None:
        self.blocks = find_blocks(model, heads)
        if sorted(block_of_site(heads)) != list(range(len(self.blocks))):
            raise NotPlain("not one attention module in each block")
        self.sites = [block_of_site(heads).index(block) for block in range(len(self.blocks))]
        self.outputs = [model.get_submodule(heads.sites[site].output) for site in self.sites]
        self.hidden: list[Tensor] = []
        self._calls: list[list[_Call]] = []  # by batch, then by block
        self._wrapped: bool | None = None  # whether a block returns a tuple
        with ExitStack() as stack:
            for index, block in enumerate(self.blocks):
                stack.enter_context(replaced_forward(block, partial(self._record, index)))
            for batch in batches:
                self._calls.append([])
                self._last: Tensor | None = None
                forward(model, batch)
                if len(self._calls[-1]) != len(self.blocks):
                    raise NotPlain("some blocks did not run")
        self._last = None

    def _record(self, index: int, forward: Any, *args: Any, **kwargs: Any) -> Any:
        """Note the arguments of a block, and return its input in the place of its output."""
        hidden, call = _Call.of(args, kwargs)
        calls = self._calls[-1]
        if len(calls) != index or (index and hidden is not self._last):
            raise NotPlain("blocks do not follow one another")
        if self._wrapped is None:
            version = hidden._version
            output = forward(*args, **kwargs)
            self._wrapped = isinstance(output, tuple)
            result = output[0] if self._wrapped and len(output) == 1 else output
            if not isinstance(result, Tensor) or result.shape != hidden.shape or hidden._version != version:
                raise NotPlain("a block gives more than the input of the next")
        calls.append(call)
        self._last = hidden
        if not index:
            self.hidden.append(hidden)
        return (hidden,) if self._wrapped else hidden

    def read(self, index: int, batch: int) -> Tensor:
        """What the output projection of block ``index`` reads: (B, T, k). The rest of the block is not run."""

        def stop(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            raise _Read(args[0])

        hook = self.outputs[index].register_forward_pre_hook(stop)
        try:
            self._run(index, batch)
        except _Read as reached:
            return reached.args[0]
        finally:
            hook.remove()
        raise NotPlain("a block does not run its output projection")

    def advance(self, index: int, batch: int) -> None:
        """Run block ``index``, and keep its output in ``hidden``."""
        self.hidden[batch] = self._run(index, batch)

    def step(self, index: int, batch: int) -> Tensor:
        """``advance``, and what the projection gives, (B, T, d): its bias where it is not run for lack of heads."""
        given: list[Tensor] = []
        hook = self.outputs[index].register_forward_hook(lambda module, args, output: given.append(output))
        try:
            self.advance(index, batch)
        finally:
            hook.remove()
        return given[0] if given else Projection.of(self.outputs[index]).offset.expand_as(self.hidden[batch])

    def adds_to_input(self, index: int) -> bool:
        """Whether a block adds what its output projection gives to the block's own input, tried on the first batch.

        It does if shifting one of them shows in the block's output as shifting the other, or as the shift itself (where
        the feed-forward layer runs beside attention). Models that scale or normalise it before are none of these.
        """
        hidden = self.hidden[0]
        shift = hidden / 2

        def run(hidden: Tensor, given: Tensor) -> Tensor:
            hook = self.outputs[index].register_forward_hook(lambda module, args, output: given.to(output.device))
            try:
                return self._calls[0][index].run(self.blocks[index], hidden)
            finally:
                hook.remove()

        plain = run(hidden, torch.zeros_like(hidden))
        tolerance = torch.finfo(hidden.dtype).eps ** 0.5 * float(plain.abs().max())

        def same(one: Tensor, other: Tensor) -> bool:
            return bool((one - other).abs().max() <= tolerance)

        return same(run(hidden + shift, -shift), plain) or same(run(hidden, shift), plain + shift.to(plain.device))

    def _run(self, index: int, batch: int) -> Tensor:
        return self._calls[batch][index].run(self.blocks[index], self.hidden[batch])
