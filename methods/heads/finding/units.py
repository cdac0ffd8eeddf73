"""The units in which heads can be removed exactly."""

from __future__ import annotations

from dataclasses import dataclass

from methods.heads.finding.site import Site

UNITS = ("group", "query")


@dataclass(frozen=True)
class Unit:
    """The smallest thing that can be removed exactly: query heads ``heads`` of site ``site``."""

    site: int  # index into HeadMap.sites
    heads: tuple[int, ...]  # query heads, ascending


def heads_of_units(site: Site, unit: str) -> list[tuple[int, ...]]:
    """The query heads of each unit of a site, for units of the kind ``unit``: "group" or "query"."""
    size = site.queries_per_group
    if site.num_key_value_heads == 1:
        return [(head,) for head in range(site.num_heads)]
    if not site.stores and (unit == "group" or size == 1):
        return [tuple(range(i * size, (i + 1) * size)) for i in range(site.num_key_value_heads)]
    return [tuple(range(i, site.num_heads, size)) for i in range(size)]
