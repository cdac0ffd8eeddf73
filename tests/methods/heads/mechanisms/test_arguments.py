"""Arguments with an entry per head must be cut to the heads that are left, and others stay."""

from __future__ import annotations

import torch

from methods.heads.mechanisms.arguments import of_heads


def test_biases_of_heads_and_masks_of_all():
    by_head = torch.randn(2, 4, 1, 5)  # (B, H, 1, S)
    expected = torch.stack([by_head[:, 1], by_head[:, 3]], 1)
    assert torch.equal(of_heads(by_head, [1, 3], 4), expected)
    assert torch.equal(of_heads(by_head.flatten(0, 1), [1, 3], 4), expected.flatten(0, 1))  # as Bloom has it
    mask = torch.randn(2, 1, 5, 5)
    assert torch.equal(of_heads(mask, [1, 3], 4), mask)
