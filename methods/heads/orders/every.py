"""All orders by the name that layouts have for them."""

from __future__ import annotations

from methods.heads.orders import groups, quarters, roles, same
from methods.heads.orders.fused import Order

ORDERS: dict[str, Order] = {
    "roles": roles.rows,
    "groups": groups.rows,
    "quarters": quarters.rows,
    "same": same.rows,
}
