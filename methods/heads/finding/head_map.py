"""The heads of a model, and the units in which they can be removed exactly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from methods.heads.finding.layout import UnsupportedArchitecture
from methods.heads.finding.site import Site
from methods.heads.finding.sites import find_sites, survey
from methods.heads.finding.units import UNITS, Unit, heads_of_units

KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class HeadMap:
    """The heads that a model has now, or those of some kinds of attention.

    Sites are in the order in which the model registers them. Units are ordered by site, then by their first head;
    every mask, gate and importance has one entry per unit, in that order. The order depends only on the architecture.

    With ``unit="group"`` a unit is one key/value head with all its query heads; with ``unit="query"`` it is the i-th
    query head of every key/value group of a site. If every query head has its own key/value head (MHA), or a site has
    but one key/value head, which goes with the last query head (MQA), both are single heads. A layer whose keys and
    values others read (Gemma 3n) keeps all groups: where it has several, its units are those of ``unit="query"``, also
    if every query head has its own key/value head, which makes one unit of all heads. Tied layers (ALBERT) are one
    site, so a unit is one head index in all of them.

    With ``kinds`` the map has only sites of these kinds. Whatever takes it leaves all other attention as it is: nothing
    of that is removed, gated or observed.

    ``left_alone``: of a composite model, the parts beside the text tower whose attention is not understood, by path
    with the reason. Their heads are no units and always stay.
    """

    sites: tuple[Site, ...]
    units: tuple[Unit, ...]
    unit: str
    kinds: tuple[str, ...] = ()  # of the sites, where the model has others too; empty: the map has all its sites
    left_alone: dict[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, model: nn.Module, unit: str = "group", kinds: Collection[str] = ()) -> HeadMap:
        """Find the heads of ``model``, or those in attention of some ``kinds``: "encoder", "decoder", "cross".

        Raises UnsupportedArchitecture (a ValueError) if pruning would not be exact, or if the model has no attention of
        one of ``kinds``; ValueError for an unknown ``unit`` or kind.
        """
        if unit not in UNITS:
            raise ValueError(f"unit must be one of {', '.join(UNITS)}, not {unit!r}")
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise ValueError(f"kinds must be of {', '.join(KINDS)}, not {unknown[0]!r}")
        every, left_alone = survey(model)
        present = {site.kind for site in every}
        if missing := [kind for kind in kinds if kind not in present]:
            has = " and ".join(kind for kind in KINDS if kind in present)
            raise UnsupportedArchitecture(f"{type(model).__name__} has no {missing[0]} attention, only {has}")
        chosen = tuple(kind for kind in KINDS if kind in kinds) if 0 < len(set(kinds)) < len(present) else ()
        sites = _of_kinds(every, chosen)
        units = [Unit(index, heads) for index, site in enumerate(sites) for heads in heads_of_units(site, unit)]
        return cls(sites, tuple(units), unit, chosen, left_alone)

    def __len__(self) -> int:
        return len(self.units)

    def __repr__(self) -> str:
        kinds = {kind: sum(site.kind == kind for site in self.sites) for kind in KINDS}
        sites = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
        left = f", left alone: {', '.join(self.left_alone)}" if self.left_alone else ""
        return f"HeadMap({sites} sites, {len(self)} units by {self.unit}, shape {self.shape}{left})"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of units of each site."""
        counts = [0] * len(self.sites)
        for unit in self.units:
            counts[unit.site] += 1
        return tuple(counts)

    @cached_property
    def site_of_unit(self) -> torch.Tensor:
        """Index of each unit's site: LongTensor (units,)."""
        return torch.tensor([unit.site for unit in self.units], dtype=torch.long)

    def unit_of_head(self, site_index: int) -> torch.Tensor:
        """Index of the unit that each query head of a site belongs to: LongTensor (num_heads,)."""
        return self._unit_of_head[site_index]

    @cached_property
    def _unit_of_head(self) -> tuple[torch.Tensor, ...]:
        """Index of the unit of each query head, for each site."""
        units = [torch.empty(site.num_heads, dtype=torch.long) for site in self.sites]
        for index, unit in enumerate(self.units):
            units[unit.site][list(unit.heads)] = index
        return tuple(units)

    @cached_property
    def never_empty(self) -> tuple[int, ...]:
        """Indices of the sites that cannot run without any head: one unit of each always stays."""
        return tuple(index for index, site in enumerate(self.sites) if site.never_empty and site.num_heads)

    @property
    def removable(self) -> int:
        """Number of units that can be removed together: all, but for one of each site that is never empty."""
        return len(self) - len(self.never_empty)

    def part_removable(self, order: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Part a removal order in the units that may go and those that stay: the last of each never-empty site.

        order: indices of some units, first removed first, LongTensor (n,). Both parts keep its order.
        """
        stays = torch.zeros(len(order), dtype=torch.bool)
        sites = self.site_of_unit[order]
        for site in self.never_empty:
            stays[(sites == site).nonzero().flatten()[-1:]] = True
        return order[~stays], order[stays]

    def best(self, importance: torch.Tensor, keep: int, left: torch.Tensor | None = None) -> torch.Tensor:
        """The mask that keeps the ``keep`` most important units: BoolTensor (units,). Ties go to the lower index.

        importance: (units,). left: (units,) bool, the units to choose from, all by default. Each never-empty site that
        has units left keeps its best one, if ``keep`` is as many as there are such sites. Raises ValueError for more
        units than there are to choose from, or fewer than none.
        """
        order = torch.cat(self.removal_order(importance, left))
        if not 0 <= keep <= len(order):
            raise ValueError(f"{keep} units cannot be kept: there are {len(order)} to choose from")
        return torch.zeros(len(self), dtype=torch.bool).index_fill(0, order[len(order) - keep :], True)

    def removal_order(
        self, importance: torch.Tensor, left: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The units that may go and those that stay, least important first; of equal ones, the higher index first.

        importance, left: as for ``best``. Parted as by ``part_removable``.
        """
        units = torch.arange(len(self)) if left is None else left.nonzero().flatten()
        ranked = units[importance.detach().cpu()[units].argsort(descending=True, stable=True)].flip(0)
        return self.part_removable(ranked)

    @property
    def description(self) -> dict[str, Any]:
        """All that was found, as plain data: the same for two models if what is done to their heads is the same."""
        return {
            "sites": [site.description for site in self.sites],
            "units": [[unit.site, list(unit.heads)] for unit in self.units],
            "unit": self.unit,
            "kinds": list(self.kinds),
            "left alone": sorted(self.left_alone),
        }

    def name(self, unit: int) -> str:
        """A unit's name for people: ``head 2 of bert.encoder.layer.0.attention.self``."""
        heads = ", ".join(map(str, self.units[unit].heads))
        return f"head {heads} of {self.sites[self.units[unit].site].name}"

    def full_mask(self) -> torch.Tensor:
        """The mask that keeps every unit: BoolTensor (units,)."""
        return torch.ones(len(self), dtype=torch.bool)

    def kept(self, mask: torch.Tensor) -> dict[str, list[int]]:
        """The query heads that ``mask`` keeps in each site, by site name; every site is listed.

        mask: BoolTensor (units,). Raises ValueError for another shape or dtype.
        """
        self.check_mask(mask)
        kept: dict[str, list[int]] = {site.name: [] for site in self.sites}
        for unit, keep in zip(self.units, mask.tolist(), strict=True):
            if keep:
                kept[self.sites[unit.site].name] += unit.heads
        return {name: sorted(heads) for name, heads in kept.items()}

    def mask(self, kept: Mapping[str, Iterable[int]]) -> torch.Tensor:
        """The mask that keeps these query heads: BoolTensor (units,), the inverse of ``kept``.

        Raises ValueError for an unknown or missing site, an unknown head, or part of a unit.
        """
        unknown = set(kept) - {site.name for site in self.sites}
        missing = {site.name for site in self.sites} - set(kept)
        if unknown or missing:
            problem = "unknown" if unknown else "missing"
            raise ValueError(f"kept has {problem} sites: {', '.join(sorted(unknown or missing))}")
        wanted = [set(kept[site.name]) for site in self.sites]
        for site, heads in zip(self.sites, wanted, strict=True):
            if not heads <= set(range(site.num_heads)):
                raise ValueError(f"{site.name} has heads 0 to {site.num_heads - 1}, not {sorted(heads)}")
        for unit in self.units:
            if 0 < len(wanted[unit.site] & set(unit.heads)) < len(unit.heads):
                raise ValueError(
                    f"{self.sites[unit.site].name} keeps part of a unit: heads {list(unit.heads)} "
                    f'are one unit with unit="{self.unit}", kept are {sorted(wanted[unit.site])}'
                )
        return torch.tensor([set(unit.heads) <= wanted[unit.site] for unit in self.units], dtype=torch.bool)

    def check_mask(self, mask: torch.Tensor) -> None:
        """Raise ValueError unless ``mask`` is a BoolTensor (units,)."""
        if mask.dtype != torch.bool or mask.shape != (len(self),):
            raise ValueError(f"a mask must be bool of shape ({len(self)},), not {mask.dtype}, {tuple(mask.shape)}")

    def check_never_empty(self, mask: torch.Tensor) -> None:
        """Raise ValueError if ``mask``, (units,) bool, leaves no unit in a site that cannot run without any head."""
        for site in self.never_empty:
            if not mask[self.site_of_unit == site].any():
                raise ValueError(f"mask keeps no unit of {self.sites[site].name}, which cannot run without any head")

    def check_model(self, model: nn.Module) -> None:
        """Raise ValueError unless ``model`` has exactly the sites of this map, and others only of other kinds."""
        if _of_kinds(find_sites(model), self.kinds) != self.sites:
            raise ValueError(f"the head map is not of this {type(model).__name__}: build a new one with HeadMap.of")


def _of_kinds(sites: tuple[Site, ...], kinds: tuple[str, ...]) -> tuple[Site, ...]:
    return tuple(site for site in sites if not kinds or site.kind in kinds)
