"""Tables of the heads that methods keep: in each layer at a level, by kind at all levels, and each head's share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench.analysis.kept import mean_heads
from bench.analysis.kinds import titled
from bench.report.kept import Kept, heads_kept
from bench.report.links import method_link
from bench.report.tables.table import Cell, Heading, Table, name_cell


def at_level(found: Kept, removed: int, root: str) -> Table:
    """Mean number of heads that each method keeps in each layer, by kind."""
    rows, groups = [], []
    for own, labels in found.kinds.items():
        for label in labels:
            if removed in found.shares[label]:
                rows.append(
                    (name_cell(label, method_link(label, root)), *_numbers(found, found.shares[label][removed]))
                )
                groups.append(titled(own))
    caption = f"Heads kept in each layer, {removed} of {found.units} removed: mean over seeds and draws"
    return Table("layers", caption, (Heading("method", "method"), *_layers(found)), tuple(rows), groups=tuple(groups))


def by_kind(found: Kept, file: str, caption: str) -> Table:
    """Mean number of heads kept in each layer at each level, over the methods of each kind that remove heads alone."""
    rows = [
        (Cell(f"{found.units - removed}", float(found.units - removed)), Cell(own, own), *_cells(found, numbers))
        for removed in found.removed
        for own, numbers in found.by_kind(removed).items()
    ]
    headings = (Heading("heads kept in all", "kept"), Heading("kind", "kind"), *_layers(found))
    return Table(file, caption, headings, tuple(rows))


def every_head(found: Kept, file: str) -> Table:
    """The share of seeds and draws that keep each head: a row for each method, level and module."""
    rows = []
    for labels in found.kinds.values():
        for label in labels:
            for removed, layers in found.shares[label].items():
                for (part, layer), shares in zip(found.modules, layers, strict=True):
                    padded = [*shares, *[math.nan] * (max(found.shape) - len(shares))]
                    place = (Cell(part, part), Cell("", float(layer)))
                    rows.append(
                        (name_cell(label), Cell("", float(removed)), *place, *(Cell("", float(s)) for s in padded))
                    )
    heads = (Heading(f"head {head}", f"head{head}") for head in range(max(found.shape)))
    headings = (*(Heading(column, column) for column in ("method", "removed", "attention", "layer")), *heads)
    return Table(file, "Share of seeds and draws that keep each head", headings, tuple(rows))


def _layers(found: Kept) -> list[Heading]:
    return [Heading(f"{part or 'layer'} {layer}", f"{part or 'layer'}{layer}") for part, layer in found.modules]


def _numbers(found: Kept, layers: Sequence[np.ndarray]) -> list[Cell]:
    return _cells(found, heads_kept(layers))


def _cells(found: Kept, numbers: np.ndarray) -> list[Cell]:
    return [
        Cell(mean_heads(float(number)), float(number), heat=float(number) / max(size, 1))
        for number, size in zip(numbers, found.shape, strict=True)
    ]
