"""Multiplying heads by gates, without changing the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from methods.heads.finding.head_map import HeadMap


@contextmanager
def gated(model: nn.Module, gates: Tensor, heads: HeadMap | None = None) -> Iterator[Callable[[Tensor], None]]:
    """Inside, multiply each head's context by its unit's gate, just before the output projection.

    gates: float or bool, (units,) or, with gates per example, (units, batch). 1 keeps, 0 removes. May require grad.

    Contexts nest: gates multiply. The activations keep their dtype. Yields a function that replaces the gates by
    others, which is much cheaper than entering the context again.

    Raises ValueError for gates of another shape or dtype, or whose number of examples is not that of the batch.
    """
    if heads is None:
        heads = HeadMap.of(model)
    else:
        heads.check_model(model)
    sites = [index for index, site in enumerate(heads.sites) if site.num_heads]
    counts = [heads.sites[index].num_heads for index in sites]
    unit_of_head = torch.cat([heads.unit_of_head(index) for index in sites]) if sites else torch.tensor([]).long()
    of_site: dict[int, Tensor | None] = {}

    def put(gates: Tensor) -> None:
        if gates.dim() not in (1, 2) or gates.shape[0] != len(heads):
            raise ValueError(
                f"gates must have shape ({len(heads)},) or ({len(heads)}, batch), not {tuple(gates.shape)}"
            )
        if not (gates.is_floating_point() or gates.dtype == torch.bool):
            raise ValueError(f"gates must be float or bool, not {gates.dtype}")
        # Sites whose gates are all 1 are skipped; only gates on the CPU are checked, as on a GPU a check waits for it.
        known = gates.dim() == 1 and gates.device.type == "cpu" and not gates.requires_grad
        of_head = gates[unit_of_head.to(gates.device)].split(counts)  # one (H,) or (H, B) for each site
        for index, own in zip(sites, of_head, strict=True):
            of_site[index] = None if known and bool((own == 1).all()) else own

    put(gates)
    with ExitStack() as hooks:
        for index in sites:
            site = heads.sites[index]
            hook = model.get_submodule(site.output).register_forward_pre_hook(
                partial(_multiply, of_site, index, site.head_dim)
            )
            hooks.callback(hook.remove)
        yield put


def _multiply(
    of_site: dict[int, Tensor | None], index: int, head_dim: int, module: nn.Module, args: tuple[Tensor, ...]
) -> tuple[Tensor, ...] | None:
    """The output projection's arguments with each head times its gate; None, for no change, if all are 1."""
    gates = of_site[index]
    if gates is None:
        return None
    context = args[0]  # (B, T, H * d_h)
    if gates.dim() == 2 and gates.shape[1] != context.shape[0]:
        raise ValueError(f"gates are for {gates.shape[1]} examples, the batch has {context.shape[0]}")
    factors = gates.to(context.device, context.dtype)
    factors = factors[None, None, :, None] if gates.dim() == 1 else factors.T[:, None, :, None]  # (1|B, 1, H, 1)
    return ((context.unflatten(-1, (len(gates), head_dim)) * factors).flatten(-2), *args[1:])
