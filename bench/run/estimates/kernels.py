"""Attention on the meta device, which keeps for the backward pass what kernels of a processor or GPU keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode


class _Attention(torch.autograd.Function):
    """Keeps queries, keys, values and contexts. Kernels also keep a number for each query, which is next to nothing."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        context = query.new_empty(*query.shape[:-1], value.shape[-1])
        ctx.save_for_backward(query, key, value, context)
        return context

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise NotImplementedError("nothing has a value on the meta device")


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, **options: Any
) -> Tensor:
    # The kernel of a CPU has neither, so that PyTorch computes maps there.
    if dropout_p or (attn_mask is not None and attn_mask.requires_grad):
        return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, **options)
    return _Attention.apply(query, key, value)  # type: ignore[no-any-return]


class KernelAttention(TorchFunctionMode):
    """Within it, ``scaled_dot_product_attention`` keeps attention maps (B x H x T x T) only where a kernel would.

    On the meta device PyTorch always would.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        chosen = _attention if func is scaled_dot_product_attention else func
        return chosen(*args, **(kwargs or {}))
