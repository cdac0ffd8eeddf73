"""A backward pass whose activations and graph are stored block by block, so that later passes reuse the lower ones."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from methods.heads.finding.blocks import block_of_site, find_blocks
from methods.heads.finding.head_map import HeadMap
from methods.heads.incremental.forwards import replaced_forward
from methods.heads.watching.observe import observed

GRAPH_BYTES = 2**30  # stored for all batches together

Gradients = Callable[[int, dict[str, Tensor], dict[str, Tensor]], None]


def observed_backward(
    value: Callable[[], Tensor],
    model: nn.Module,
    heads: HeadMap,
    gradients: Gradients,
    memory: dict[Any, Any] | None = None,
    key: Any = None,
) -> None:
    """Compute ``value()``, a scalar, and its gradients, and call ``gradients`` as ``observed`` does.

    memory: where activations and graph are stored under ``key``, 1 GiB for all keys together; nothing else may be in
        it. At the next call with this key, ``value`` must run the model on the same inputs and nothing may have changed
        but that heads were removed; then only the blocks from the lowest one that lost a head are run again. None
        stores nothing, as does a model that is not one plain stack of blocks. If that shows only when the model runs,
        what was stored is dropped, and all later calls with this memory run the whole model once.
    """
    if memory is None or not _by_segments(value, model, heads, gradients, memory, key):
        with observed(model, heads, gradients=gradients):
            value().backward()


def _by_segments(
    value: Callable[[], Tensor],
    model: nn.Module,
    heads: HeadMap,
    gradients: Gradients,
    memory: dict[Any, Any],
    key: Any,
) -> bool:
    """As ``observed_backward`` with a memory. False, without a call of ``gradients``, where blocks are no chain."""
    blocks = [] if NotAChain in memory else find_blocks(model, heads)
    if not blocks:
        return False
    segments: GraphSegments = memory.setdefault(key, GraphSegments(blocks))
    try:
        segments.run(value, model, heads, gradients)
    except NotAChain:
        memory.clear()
        memory[NotAChain] = True
        return False
    if sum(each.nbytes for each in memory.values()) > GRAPH_BYTES:
        del memory[key]
    return True


class NotAChain(ValueError):
    """The blocks of a model hand on more than each one's output as the next one's input."""


class GraphSegments:
    """Activations and graph of one batch, with one piece of graph for each block.

    ``nbytes``: size of what the graph holds, the model's own tensors not included.
    """

    def __init__(self, blocks: list[nn.Module]) -> None:
        self.nbytes = 0
        self._blocks = blocks
        self._inputs: list[Tensor | None] = [None] * (len(blocks) + 1)  # leaves; the last is the top block's output
        self._outputs: list[Tensor | None] = [None] * len(blocks)
        self._lowest = 0  # the lowest block whose gradients are needed
        self._heads: list[int] | None = None  # of each site, at the last pass
        self._gradients: Gradients | None = None  # of the present pass
        self._early = False  # whether gradients arrived before those of any block were asked for

    def run(self, value: Callable[[], Tensor], model: nn.Module, heads: HeadMap, gradients: Gradients) -> None:
        """As ``observed_backward``. Raises NotAChain before any call of ``gradients``."""
        counts = [site.num_heads for site in heads.sites]
        blocks = block_of_site(heads)
        before = self._heads or [-1] * len(counts)
        start = min((block for block, old, new in zip(blocks, before, counts, strict=True) if old != new), default=0)
        self._lowest = min(block for block, count in zip(blocks, counts, strict=True) if count)
        own = weakref.ref(self)

        def receive(*call: Any) -> None:
            if segments := own():
                segments._receive(*call)

        # The stored graph holds this function, so it must not hold the graph: that would never be freed.
        with observed(model, heads, gradients=receive):
            with self._recording(0 if self._heads is None else start):
                result = value()
            self._heads = counts
            self._backward(result, gradients)

    def _receive(self, *call: Any) -> None:
        if self._gradients is None:
            self._early = True
        else:
            self._gradients(*call)

    @contextmanager
    def _recording(self, start: int) -> Iterator[None]:
        """Inside, run the model once on the batch: blocks from ``start`` on run, those below return what is stored."""
        own = weakref.ref(self)
        known = {tensor.untyped_storage().data_ptr() for block in self._blocks for tensor in block.parameters()}

        def weigh(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in known:
                known.add(storage.data_ptr())
                if segments := own():
                    segments.nbytes += storage.nbytes()
            return tensor.detach()  # with its history a node that saves its own output would hold itself for ever

        with ExitStack() as stack:
            if not start:
                self.nbytes = 0
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(weigh, lambda tensor: tensor))
            for index, block in enumerate(self._blocks):
                run = self._stored if index < start else self._run
                stack.enter_context(replaced_forward(block, partial(run, index)))
            yield

    def _backward(self, value: Tensor, gradients: Gradients) -> None:
        """Send the gradient of ``value`` down, one block after the other, to the lowest that is needed."""
        inputs = [leaf for leaf in self._inputs if leaf is not None and leaf.requires_grad]
        self._early = False
        *others, gradient = torch.autograd.grad(value, inputs, allow_unused=True)
        if gradient is None or self._early or any(other is not None for other in others):
            raise NotAChain("the value depends on blocks in other ways than through the last one's output")
        self._gradients = gradients
        try:
            for index in reversed(range(self._lowest, len(self._blocks))):
                output, leaf = self._outputs[index], self._inputs[index]
                assert output is not None and leaf is not None
                (gradient,) = torch.autograd.grad(output, leaf, gradient, retain_graph=True)
        finally:
            self._gradients = None

    def _stored(self, index: int, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
        leaf = self._inputs[index + 1]
        assert leaf is not None
        return leaf

    def _run(self, index: int, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
        hidden = args[0] if args else kwargs.get("hidden_states")
        if not args or not isinstance(hidden, Tensor) or (index and hidden is not self._inputs[index]):
            raise NotAChain(f"block {index} does not take the output of the block before as its first argument")
        if not index:
            hidden = self._inputs[0] = hidden.detach().requires_grad_(self._lowest == 0)
        version = hidden._version
        output = forward(hidden, *args[1:], **kwargs)
        if not isinstance(output, Tensor) or hidden._version != version:
            raise NotAChain(f"block {index} gives more than one tensor, or changes its input")
        self._outputs[index] = output
        leaf = self._inputs[index + 1] = output.detach().requires_grad_(index + 1 >= self._lowest)
        return leaf
