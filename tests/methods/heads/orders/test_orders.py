"""The rows of each order must be those that a plain walk through the projection finds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from methods.heads.orders.every import ORDERS
from methods.heads.orders.fused import ROLES, Fused
from methods.heads.orders.quarters import PARTS, WITHIN

SHAPES = {
    "per_group": st.integers(1, 4),  # query heads
    "groups": st.integers(1, 4),
    "widths": st.tuples(*[st.integers(1, 3)] * 3),
    "roles": st.sampled_from([ROLES, ROLES[1:], ("query",), ("value",)]),
}


def shape(per_group: int, groups: int, widths: tuple[int, ...], roles: tuple[str, ...]) -> Fused:
    numbers = {"query": per_group * groups, "key": groups, "value": groups}
    return Fused(roles, numbers, dict(zip(ROLES, widths, strict=True)))


def check(order: str, fused: Fused, walk: list[tuple[str, int]]) -> None:
    """walk: the role and the head of each block of rows, from the first row to the last."""
    expected: dict[tuple[str, int], list[int]] = {}
    row = 0
    for role, head in walk:
        expected[role, head] = list(range(row, row + fused.widths[role]))
        row += fused.widths[role]
    assert len(walk) == sum(fused.numbers[role] for role in fused.roles)
    for role in fused.roles:
        heads = list(range(fused.numbers[role]))[::-2]
        rows = ORDERS[order](role, torch.tensor(heads), fused)
        assert rows.tolist() == [each for head in heads for each in expected[role, head]]


@given(**SHAPES)
def test_role_by_role(per_group, groups, widths, roles):
    fused = shape(per_group, groups, widths, roles)
    check("roles", fused, [(role, head) for role in roles for head in range(fused.numbers[role])])


@given(**SHAPES)
def test_group_by_group(per_group, groups, widths, roles):
    fused = shape(per_group, groups, widths, roles)
    of_group = {"query": per_group, "key": 1, "value": 1}
    walk = [
        (role, group * of_group[role] + place)
        for group in range(groups)
        for role in roles
        for place in range(of_group[role])
    ]
    check("groups", fused, walk)


@given(heads=st.integers(1, 9), head_dim=st.sampled_from([4, 8]))
def test_quarters_are_split_as_in_the_forward_of_the_model(heads, head_dim):
    width = heads * head_dim
    of_parts = torch.arange(3 * width).view(PARTS, 3, width // PARTS)
    fused = Fused(ROLES, dict.fromkeys(ROLES, heads), dict.fromkeys(ROLES, head_dim))
    for place, role in enumerate(WITHIN):
        rows = ORDERS["quarters"](role, torch.arange(heads), fused)
        assert torch.equal(rows, of_parts[:, place].flatten())


@pytest.mark.parametrize("role", ["key", "value"])
def test_keys_that_serve_as_values(role):
    fused = Fused(("key", "value"), {"query": 4, "key": 2, "value": 2}, dict.fromkeys(ROLES, 3))
    assert ORDERS["same"](role, torch.tensor([1]), fused).tolist() == [3, 4, 5]


@pytest.mark.parametrize("order", ORDERS)
def test_no_head_has_no_row(order):
    fused = Fused(ROLES, dict.fromkeys(ROLES, 0), dict.fromkeys(ROLES, 4))
    rows = ORDERS[order]("value", torch.tensor([], dtype=torch.long), fused)
    assert rows.shape == (0,) and rows.dtype == torch.long
