"""A forward pass with its graph kept in one piece a block, so that later passes need not make them all again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from methods.heads.incremental.split_block import replaced


class NotAChain(ValueError):
    """A model hands on more between its blocks than each one's output to the next as its input."""


class Segments:
    """One batch's activations and graph, block by block; no parameter is to require a gradient.

    ``nbytes`` is what the graph holds beside the model's own tensors.
    """

    def __init__(self, blocks: list[nn.Module]) -> None:
        self.nbytes = 0
        self._blocks = blocks
        self._inputs: list[Tensor | None] = [None] * (len(blocks) + 1)  # leaves; the last is the top block's output
        self._outputs: list[Tensor | None] = [None] * len(blocks)
        self._lowest = 0

    @contextmanager
    def recording(self, start: int, lowest: int) -> Iterator[None]:
        """Inside, run the model once on the batch: anew from block ``start`` on, with the pieces below as they are.

        No gradient is wanted below block ``lowest``. Blocks below ``start`` must be as they were at the last pass.
        Raises NotAChain.
        """
        self._lowest = lowest
        known = {tensor.untyped_storage().data_ptr() for block in self._blocks for tensor in block.parameters()}

        def weigh(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in known:
                known.add(storage.data_ptr())
                self.nbytes += storage.nbytes()
            return tensor

        with ExitStack() as stack:
            if not start:
                self.nbytes = 0
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(weigh, lambda tensor: tensor))
            for index, block in enumerate(self._blocks):
                run = self._hand_on if index < start else self._run
                stack.enter_context(replaced(block, partial(run, index)))
            yield

    def backward(self, value: Tensor) -> None:
        """Send the gradient of ``value`` down to block ``lowest``; nothing is kept of it but what hooks see.

        Raises NotAChain.
        """
        inputs = [leaf for leaf in self._inputs if leaf is not None and leaf.requires_grad]
        *others, gradient = torch.autograd.grad(value, inputs, allow_unused=True)
        if gradient is None or any(other is not None for other in others):
            raise NotAChain("the value depends on blocks in other ways than through the last one's output")
        for index in reversed(range(self._lowest, len(self._blocks))):
            output, leaf = self._outputs[index], self._inputs[index]
            assert output is not None and leaf is not None
            (gradient,) = torch.autograd.grad(output, leaf, gradient, retain_graph=True)

    def _hand_on(self, index: int, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
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
