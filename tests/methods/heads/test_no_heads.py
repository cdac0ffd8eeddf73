"""A layer without heads must call no attention kernel: those of GPUs fail, or end the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from methods.heads import HeadMap, remove_heads

EMPTIED = ("no head in the first site", "no head at all")


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[..., torch.Tensor]:
    """The attention kernel, which refuses tensors without entries."""
    run = torch.nn.functional.scaled_dot_product_attention

    def attend(*tensors: torch.Tensor, **options: Any) -> torch.Tensor:
        assert all(tensor.numel() for tensor in tensors), "attention of no heads"
        return run(*tensors, **options)

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", attend)
    return attend


def test_the_kernel_refuses_no_heads(kernel):
    with pytest.raises(AssertionError, match="attention of no heads"):
        kernel(*torch.zeros(3, 2, 0, 5, 4))


@pytest.mark.parametrize("emptied", EMPTIED)
def test_no_kernel_is_called(zoo, family, emptied):
    """The model itself, which shares its configuration with the smaller one, goes on calling it."""
    model, batch = zoo.model(family), zoo.batch(family)
    attention = model.config._attn_implementation
    smaller = remove_heads(model, zoo.masks(HeadMap.of(model))[emptied])
    smaller(**batch).logits.sum().backward()
    assert smaller.config._attn_implementation == model.config._attn_implementation == attention


@pytest.mark.typical
def test_no_kernel_is_called_after_more_heads_are_removed(zoo, family):
    model, batch = zoo.model(family), zoo.batch(family)
    once = remove_heads(model, zoo.masks(HeadMap.of(model))["no head in the first site"])
    left = HeadMap.of(once)
    remove_heads(once, torch.arange(len(left)) % 2 == 0, left)(**batch)
