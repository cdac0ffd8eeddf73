"""The description of one attention module."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from methods.heads.finding.geometry import Geometry
from methods.heads.finding.layout import set_fields


@dataclass(frozen=True, kw_only=True)
class Site(Geometry):
    """One attention module of a model.

    ``output`` is the path of the output projection. ``followers`` are the paths of more linear layers with outputs for
    every query head: one, or as many as its context has.
    """

    name: str  # dotted path of the attention module
    kind: str  # "encoder", "decoder" or "cross"
    layer: int
    output: str = field(repr=False)
    per_head: tuple[str, ...] = field(default=(), repr=False)  # its parameters with one entry per query head
    followers: tuple[str, ...] = field(default=(), repr=False)
    never_empty: bool = False  # it cannot run without any head, so one of its units always stays
    replaced: bool = field(default=False, repr=False)  # its forward is replaced when no head is left

    @property
    def description(self) -> dict[str, Any]:
        """All that was found, as plain data; what is empty, zero or false is left out."""
        return set_fields(self) | {"layout": self.layout.description}
