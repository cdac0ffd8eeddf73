"""Gradients of each example's loss to a gate on each unit."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from methods.contract.view import Batch, View
from methods.heads import gated


def gate_gradients(view: View) -> Iterator[Tensor]:
    """Gradients of the losses to the gates, batch by batch: (units, B) float64 on the CPU, at gates of 1.

    One pass forward and backward over the calibration set, for all units.
    """
    for batch in view.batches:
        yield gradients_at(view, batch, torch.ones(len(view.heads), len(batch.labels)))


def gradients_at(view: View, batch: Batch, gates: Tensor) -> Tensor:
    """Gradient of the loss of each example of ``batch`` to its gates: (units, B) float64 on the CPU.

    gates: (units, B), the values at which the gradients are taken.
    """
    gates = gates.to(batch.labels.device).requires_grad_()
    with gated(view.model, gates, view.heads):
        (gradient,) = torch.autograd.grad(view.loss(batch).sum(), gates)
    return gradient.double().cpu()


def gradients_at_site(view: View, batch: Batch, site: int, gates: Tensor) -> Tensor:
    """The same for the gates of one site, (units of the site, B), while all others are 1.

    Nothing below the site is differentiated.
    """
    where = view.heads.sites[site]
    if not len(gates):
        return gates.double()
    gates = gates.to(batch.labels.device).requires_grad_()
    unit = view.heads.unit_of_head(site)
    of_heads = gates[(unit - unit.min()).to(gates.device)]  # (H, B)

    def multiply(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        contexts = args[0].unflatten(-1, (where.num_heads, where.head_dim))  # (B, T, H, d_h)
        factors = of_heads.T[:, None, :, None].to(contexts.device, contexts.dtype)
        return ((contexts * factors).flatten(-2), *args[1:])

    hook = view.model.get_submodule(where.output).register_forward_pre_hook(multiply)
    try:
        (gradient,) = torch.autograd.grad(view.loss(batch).sum(), gates)
    finally:
        hook.remove()
    return gradient.double().cpu()
