"""The description of one attention module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from methods.heads.finding.layouts import ROLES, Layout
from methods.heads.mechanisms.quarters import rows_in_quarters


@dataclass(frozen=True)
class Site:
    """One attention module of a model.

    ``layers`` lists every layer that runs the module: more than one where layers are tied (ALBERT). ``projections``
    maps "query", "key" and "value" to the dotted paths of their modules, which are the same path where the projection
    is fused; ``output`` is the path of the output projection. ``followers`` are the paths of more linear layers with
    outputs for every query head: one, or as many as its context has.

    ``widths`` gives the outputs of the projection for one head of each role. For a role whose projection is normalised
    over all heads at once, ``norms`` has the path of that norm. ``places`` says, for a role whose projection keeps the
    outputs of heads that are gone, where among all its heads those that are left are.

    ``source`` is the path of another module whose keys and values this one attends to, with its projections of them;
    where ``stores``, others attend to those of this one, so all key/value heads stay.
    """

    name: str  # dotted path of the attention module
    kind: str  # "encoder", "decoder" or "cross"
    layer: int
    layers: tuple[int, ...]
    num_heads: int  # query heads now present
    num_key_value_heads: int
    head_dim: int  # width of a head's context
    projections: dict[str, str] = field(repr=False, hash=False)
    output: str = field(repr=False)
    layout: Layout = field(repr=False)
    widths: dict[str, int] = field(repr=False, hash=False)
    norms: dict[str, str] = field(default_factory=dict, repr=False, hash=False)
    places: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False, hash=False)
    per_head: tuple[str, ...] = field(default=(), repr=False)  # its parameters with one entry per query head
    followers: tuple[str, ...] = field(default=(), repr=False)
    source: str = field(default="", repr=False)
    stores: bool = field(default=False, repr=False)
    never_empty: bool = False  # it cannot run without any head, so one of its units always stays

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
        fused = [other for other in ROLES if self.projections[other] == self.projections[role]]
        before, width = fused[: fused.index(role)], self.widths[role]
        if role in self.places:
            heads = [self.places[role][head] for head in heads]
        places = torch.tensor(heads, dtype=torch.long)
        if self.layout.order == "quarters":
            return rows_in_quarters(role, self._of_heads(places), self.num_heads * self.head_dim)
        if self.layout.order == "groups":
            number = {"query": self.queries_per_group, "key": 1, "value": 1}  # of each role's heads in a group
            of_group, offset = (sum(number[each] * self.widths[each] for each in some) for some in (fused, before))
            first = places // number[role] * of_group + offset + places % number[role] * width
        elif self.layout.order == "same":
            first = places * width
        else:
            first = places * width + sum(self.heads_of(other) * self.widths[other] for other in before)
        return (first[:, None] + torch.arange(width)).flatten()

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
        return self._of_heads(torch.tensor(heads, dtype=torch.long))

    def biases(self, module: nn.Module) -> list[nn.Parameter]:
        """The parameters of the site's module that are added to all heads' queries, keys or values: (H * d_h,) each."""
        return [module.get_parameter(name) for name in self.layout.biases]

    def tables(self, module: nn.Module) -> list[nn.Embedding]:
        """The embeddings of the site's module with one entry for every query head."""
        children = (module._modules.get(name) for name in self.layout.tables)
        return [child for child in children if isinstance(child, nn.Embedding)]

    def groups_of(self, heads: Sequence[int]) -> list[int]:
        """The key/value heads that stay with these query heads, ascending."""
        if self.stores:
            return list(range(self.num_key_value_heads))
        return sorted({head // self.queries_per_group for head in heads})

    def narrowed(self, heads: Sequence[int]) -> Site:
        """The description of the site when it has only the query heads ``heads`` left."""
        left = {"query": heads, "key": self.groups_of(heads), "value": self.groups_of(heads)}
        places = {role: tuple(places[head] for head in left[role]) for role, places in self.places.items()}
        return replace(self, num_heads=len(heads), num_key_value_heads=len(left["key"]), places=places)

    def _of_heads(self, places: torch.Tensor) -> torch.Tensor:
        """Indices of the entries of the heads at ``places``, (n,): LongTensor (n * head_dim,)."""
        return (places[:, None] * self.head_dim + torch.arange(self.head_dim)).flatten()
