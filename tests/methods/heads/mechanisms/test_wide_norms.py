"""Which norms are over all heads at once, and what they hand on when some heads are gone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from methods.heads import HeadMap, remove_heads
from methods.heads.finding.wide_norms import wide_norms
from methods.heads.mechanisms.wide_norms import select_heads


class _Attention(nn.Module):
    """Projections whose outputs are given to other modules in several ways."""

    def __init__(self):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(8, 8))
        self.all_heads, self.each_head, self.of_input = nn.LayerNorm(8), nn.LayerNorm(4), nn.LayerNorm(8)
        self.twice, self.dropout = nn.LayerNorm(8), nn.Dropout()

    def _by_heads(self, states):
        return states.unflatten(-1, (2, 4))

    def forward(self, hidden):
        hidden = self.twice(self.of_input(hidden))
        query = self.all_heads(self.q_proj(hidden))
        key = self.each_head(self.k_proj(hidden).unflatten(-1, (2, 4)))
        value = self._by_heads(self.v_proj(hidden))
        return self.dropout(self.o_proj(self.twice(query) + key.flatten(-2) + value.flatten(-2)))


def test_only_norms_of_a_whole_projection_are_wide():
    assert wide_norms(_Attention()) == {"all_heads": "q_proj"}


@pytest.mark.parametrize("norm", [nn.LayerNorm(12), nn.RMSNorm(12)])
def test_a_norm_hands_on_the_heads_that_are_left(norm):
    states = torch.randn(2, 5, 12)
    whole = norm(states).unflatten(-1, (3, 4))
    for places in ([0, 2], [2], [1]):  # one choice after the other
        select_heads(norm, places, 4)
        assert torch.equal(norm(states), whole[..., places, :].flatten(-2))


def test_what_the_norm_does_not_need_is_removed(zoo):
    model = zoo.model("olmo2")
    heads = HeadMap.of(model)
    kept = {site.name: [] if site.layer == 2 else [0, 1] for site in heads.sites}  # one of two groups of width 6 each
    smaller = remove_heads(model, heads.mask(kept), heads)
    for layer, rows in enumerate(((24, 12, 6), (24, 12, 6), (0, 0, 0))):
        attention = smaller.model.layers[layer].self_attn
        widths = [getattr(attention, name).out_features for name in ("q_proj", "k_proj", "v_proj")]
        assert tuple(widths) == rows
        assert (attention.q_norm.weight.numel(), attention.k_norm.weight.numel()) == rows[:2]
        assert attention.o_proj.in_features == 2 * rows[2]
