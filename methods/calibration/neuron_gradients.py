"""Gradients of each example's loss to a gate on each neuron of the feed-forward layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from methods.contract.view import View
from methods.heads import UnsupportedArchitecture, find_mlps


def neuron_gate_gradients(view: View) -> Iterator[dict[str, Tensor]]:
    """Gradients of the losses to the gates, batch by batch: (width, B) float64 on the CPU by feed-forward layer.

    A gate multiplies one input of the down projection, in all calls of a tied layer, and is 1. One pass forward and
    backward over the calibration set, for all neurons.

    Raises UnsupportedArchitecture for a layer that sees only some of the tokens, as an expert does: of those, no text
    is known.
    """
    mlps = find_mlps(view.model)
    for batch in view.batches:
        shape = len(batch.labels), 1
        tokens = {values.shape[:2].numel() for values in batch.inputs.values()}  # of sources, and of targets
        gates = [torch.ones(*shape, mlp.width, device=batch.labels.device, requires_grad=True) for mlp in mlps]
        with ExitStack() as hooks:
            for mlp, gate in zip(mlps, gates, strict=True):
                hook = view.model.get_submodule(mlp.output).register_forward_pre_hook(_multiply(gate, mlp.name, tokens))
                hooks.callback(hook.remove)
            found = torch.autograd.grad(view.loss(batch).sum(), gates, materialize_grads=True)
        yield {mlp.name: values[:, 0].T.double().cpu() for mlp, values in zip(mlps, found, strict=True)}


def _multiply(gate: Tensor, name: str, tokens: Collection[int]) -> Callable:
    """A hook that multiplies the input of a linear layer by ``gate``, (B, 1, width).

    name: of the feed-forward layer. tokens: numbers B * T that its inputs may have.
    """

    def hook(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        values = args[0]  # (B, T, width), or (B * T, width) in OPT
        if values.dim() == 2 and len(values) not in tokens:
            raise UnsupportedArchitecture(f"{name} sees {len(values)} tokens of a batch, and of which texts is unknown")
        by_text = values.unflatten(0, (len(gate), -1)) if values.dim() == 2 else values
        return ((by_text * gate.to(values)).view_as(values), *args[1:])

    return hook
