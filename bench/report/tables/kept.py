"""Tables of the heads that methods keep: in each layer at a level, by kind at all levels, and each head's share."""

from __future__ import annotations

import math

import numpy as np

from bench.analysis.kept import mean_heads
from bench.analysis.kinds import titled
from bench.report.kept import Kept, heads_kept
from bench.report.links import method_link
from bench.report.tables.table import Cell, Heading, Table, name_cell


def at_level(kept: Kept, removed: int, root: str) -> Table:
    """Mean number of heads that each method keeps in each layer, by kind."""
    rows, groups = [], []
    for own, labels in kept.kinds.items():
        for label in labels:
            if removed in kept.shares[label]:
                numbers, number = heads_kept(kept.shares[label][removed]), kept.in_all(label, removed)
                in_all = Cell(mean_heads(number), number)
                rows.append((name_cell(label, method_link(label, root)), *_cells(kept, numbers), in_all))
                groups.append(titled(own))
    caption = f"Heads kept in each layer, {removed} of {kept.units} removed: mean over seeds and draws"
    headings = (Heading("method", "method"), *_layers(kept), Heading("in all", "kept"))
    return Table("layers", caption, headings, tuple(rows), groups=tuple(groups))


def by_kind(kept: Kept, file: str, caption: str) -> Table:
    """Mean number of heads kept in each layer at each level, over the methods of each kind that remove heads alone."""
    rows = [
        (Cell(f"{kept.units - removed}", float(kept.units - removed)), Cell(own, own), *_cells(kept, numbers))
        for removed in kept.removed
        for own, numbers in kept.by_kind(removed).items()
    ]
    headings = (Heading("heads kept in all", "kept"), Heading("kind", "kind"), *_layers(kept))
    return Table(file, caption, headings, tuple(rows))


def every_head(kept: Kept, file: str) -> Table:
    """The share of seeds and draws that keep each head: a row for each method, level and module.

    ``kept`` is the mean number of heads that the method keeps at the level, in all modules.
    """
    rows = []
    for labels in kept.kinds.values():
        for label in labels:
            for removed, layers in kept.shares[label].items():
                level = (Cell("", float(removed)), Cell("", kept.in_all(label, removed)))
                for (part, layer), shares in zip(kept.modules, layers, strict=True):
                    padded = [*shares, *[math.nan] * (max(kept.shape) - len(shares))]
                    place = (Cell(part, part), Cell("", float(layer)))
                    rows.append((name_cell(label), *level, *place, *(Cell("", float(s)) for s in padded)))
    heads = (Heading(f"head {head}", f"head{head}") for head in range(max(kept.shape)))
    headings = (*(Heading(column, column) for column in ("method", "removed", "kept", "attention", "layer")), *heads)
    return Table(file, "Share of seeds and draws that keep each head", headings, tuple(rows))


def _layers(kept: Kept) -> list[Heading]:
    return [Heading(f"{part or 'layer'} {layer}", f"{part or 'layer'}{layer}") for part, layer in kept.modules]


def _cells(kept: Kept, numbers: np.ndarray) -> list[Cell]:
    return [
        Cell(mean_heads(float(number)), float(number), heat=float(number) / max(size, 1))
        for number, size in zip(numbers, kept.shape, strict=True)
    ]
