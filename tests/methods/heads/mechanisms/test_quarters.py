"""The rows of a projection in four parts must be those that CodeGen's own code takes."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from methods.heads.mechanisms.quarters import PARTS, ROLES, rows_in_quarters


@given(heads=st.integers(1, 9), head_dim=st.sampled_from([4, 8]))
def test_each_row_belongs_to_one_role(heads, head_dim):
    width = heads * head_dim
    rows = torch.arange(3 * width).view(PARTS, 3, width // PARTS)  # as the model's forward splits its outputs
    of_roles = [rows_in_quarters(role, torch.arange(width), width) for role in ROLES]
    for place, found in enumerate(of_roles):
        assert torch.equal(found, rows[:, place].flatten())
    assert torch.equal(torch.cat(of_roles).sort().values, torch.arange(3 * width))
