"""Which rows and columns belong to the heads of an attention module, and which remain with fewer heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch

from methods.heads.finding.layout import Layout
from methods.heads.orders.every import ORDERS
from methods.heads.orders.fused import ROLES, Fused, rows_from


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Numbers and widths of the heads of one attention module, and how its projections hold them.

    ``layers`` lists every layer that runs the module: more than one where layers are tied (ALBERT). ``projections``
    maps "query", "key" and "value" to the dotted paths of their modules, which are the same path where the projection
    is fused.

    ``widths`` gives the outputs of the projection for one head of each role. For a role whose projection is normalised
    over all heads at once, ``norms`` has the path of that norm. ``places`` says, for a role whose projection keeps the
    outputs of heads that are gone, where among all its heads those that are left are.

    ``source`` is the path of another module whose keys and values this one attends to, with its projections of them;
    where ``stores``, others attend to those of this one, so all key/value heads stay.

    ``counts`` has the attributes in which the module stores its geometry, with what each counts.
    """

    layers: tuple[int, ...]
    num_heads: int  # query heads now present
    num_key_value_heads: int
    head_dim: int  # width of a head's context
    projections: dict[str, str] = field(repr=False, hash=False)
    layout: Layout = field(repr=False)
    widths: dict[str, int] = field(repr=False, hash=False)
    norms: dict[str, str] = field(default_factory=dict, repr=False, hash=False)
    places: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False, hash=False)
    source: str = field(default="", repr=False)
    stores: bool = field(default=False, repr=False)
    counts: dict[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def calls(self) -> int:
        """Number of times that the module runs in one forward pass."""
        return len(self.layers)

    @property
    def queries_per_group(self) -> int:
        """Number of query heads that share one key/value head; 1 if none of either is left."""
        return self.num_heads // self.num_key_value_heads if self.num_key_value_heads else 1

    def heads_of(self, role: str) -> int:
        """Number of heads of ``role``: "query", "key" or "value"."""
        return self.num_heads if role == "query" else self.num_key_value_heads

    def rows(self, role: str, heads: list[int]) -> torch.Tensor:
        """Indices of the outputs of the projection of ``role`` for ``heads``: LongTensor (len(heads) * width,)."""
        if role in self.places:
            heads = [self.places[role][head] for head in heads]
        together = tuple(other for other in ROLES if self.projections[other] == self.projections[role])
        fused = Fused(together, {each: self.heads_of(each) for each in ROLES}, self.widths)
        return ORDERS[self.layout.order](role, torch.tensor(heads, dtype=torch.long), fused)

    def keeps(self, role: str) -> bool:
        """Whether the projection of ``role`` keeps the rows of removed heads as long as a head is left."""
        return role in self.norms or (role != "query" and (self.stores or bool(self.source)))

    def of_heads(self, role: str, outputs: torch.Tensor) -> torch.Tensor:
        """What the projection of ``role`` gives for each head, (B, T, heads, width), from its outputs, (B, T, rows).

        Latent states come with an axis for their only head, (B, 1, T, rows).
        """
        if outputs.dim() == 4:
            outputs = outputs.flatten(1, 2)
        number, width = self.heads_of(role), self.widths[role]
        if outputs.shape[-1] != number * width:
            outputs = outputs[..., self.rows(role, list(range(number)))]
        return outputs.unflatten(-1, (number, width))

    def columns(self, heads: Sequence[int]) -> torch.Tensor:
        """Indices of the output projection's inputs for ``heads``: LongTensor (len(heads) * head_dim,)."""
        return rows_from(torch.tensor(heads, dtype=torch.long) * self.head_dim, self.head_dim)

    def groups_of(self, heads: Sequence[int]) -> list[int]:
        """The key/value heads that stay with these query heads, ascending."""
        if self.stores:
            return list(range(self.num_key_value_heads))
        return sorted({head // self.queries_per_group for head in heads})

    def narrowed(self, heads: Sequence[int]) -> Self:
        """The description of the site when it has only the query heads ``heads`` left."""
        left = {"query": heads, "key": self.groups_of(heads), "value": self.groups_of(heads)}
        places = {role: tuple(places[head] for head in left[role]) for role, places in self.places.items()}
        return replace(self, num_heads=len(heads), num_key_value_heads=len(left["key"]), places=places)

    def attributes(self) -> dict[str, int]:
        """The attributes in which the module stores its geometry, with the values that they must have."""
        values = {
            "query heads": self.num_heads,
            "key/value heads": self.num_key_value_heads,
            "query heads per group": self.queries_per_group,  # 1 with no head left, as attention kernels divide by it
            "width of all query heads": self.num_heads * self.head_dim,
            "width of all key/value heads": self.num_key_value_heads * self.head_dim,
        }
        return {name: values[counted] for name, counted in self.counts.items()}
