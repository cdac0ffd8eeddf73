"""A task's pages of heads: which are kept at each level, and how many in each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.analysis.kept import mean_heads
from bench.analysis.kinds import KINDS
from bench.analysis.trade_offs.budgets import evenly
from bench.records.schema import TaskKey
from bench.report.board import Board
from bench.report.figures.heads import gallery as head_gallery
from bench.report.figures.heads import maps as head_maps
from bench.report.figures.looks import control
from bench.report.files import Files, files_of
from bench.report.kept import Kept, kept
from bench.report.links import heads_file, task_slug
from bench.report.pages.render import render
from bench.report.tables import kept as tables
from bench.report.tables.table import to_csv

MOST = 12  # levels in a page


def heads_page(board: Board, task: TaskKey) -> Files:
    """The page with its picture and tables, one folder below the report's; none where nothing is known of heads.

    Of more levels than ``MOST`` it shows some, evenly spread, and further pages show them all.
    """
    found = kept(board, task)
    if found is None or not found.removed:
        return {}
    slug, levels = task_slug(task), evenly(found.removed, MOST)
    drawn = head_gallery.layers_by_kind(board, task, found, control(board))
    each = tables.every_head(found, f"heads-{slug}")
    caption = f"{board.name(task)}: heads kept in each layer, mean over methods that remove heads alone"
    of_kinds = tables.by_kind(found, f"layers-{slug}", caption)
    further = _further(found, task) if len(levels) < len(found.removed) else {}
    page = render(
        "heads.html",
        title=f"Heads kept: {board.name(task)}",
        root="../",
        task=task,
        name=board.name(task),
        found=found,
        levels=[_level(found, removed, "../") for removed in levels],
        further=[(file, stretch[0], stretch[-1]) for file, stretch in further.items()],
        each=each.name,
        layers=drawn,
        by_kind=of_kinds,
    )
    files = {heads_file(task): page, f"tables/{each.name}.csv": to_csv(each)}
    for file, stretch in further.items():
        root = "../" * file.count("/")
        files[file] = render(
            "head_levels.html",
            title=f"Heads kept: {board.name(task)}, {stretch[0]} to {stretch[-1]} of {found.units} removed",
            root=root,
            first_page=heads_file(task),
            found=found,
            levels=[_level(found, removed, root) for removed in stretch],
            each=each.name,
        )
    return files | files_of([drawn], [of_kinds])


def _further(kept: Kept, task: TaskKey) -> dict[str, Sequence[int]]:
    """Numbers of heads removed, ``MOST`` to a page, by the page's path in the report."""
    return {
        f"heads/levels/{task_slug(task)}-{first // MOST + 1}.html": kept.removed[first : first + MOST]
        for first in range(0, len(kept.removed), MOST)
    }


def _level(kept: Kept, removed: int, root: str) -> dict[str, Any]:
    """What a page shows of one level."""
    groups = []
    for own, labels in kept.kinds.items():
        maps = [_map(kept, label, removed) for label in labels if removed in kept.shares[label]]
        groups.append((f"{own}: {KINDS[own]}", maps))
    share = 100 * removed / kept.units
    return {
        "option": f"{removed} of {kept.units} ({share:.0f} %)",
        "groups": [(title, maps) for title, maps in groups if maps],
        "table": tables.at_level(kept, removed, root),
    }


def _map(kept: Kept, label: str, removed: int) -> dict[str, Any]:
    layers = kept.shares[label][removed]
    parts = [_part(name, layers[own]) for name, own in kept.parts.items() if any(map(len, layers[own]))]
    name = label + " (control)" * (label in kept.controls)
    if label not in kept.counted:
        name += f", {mean_heads(kept.in_all(label, removed))} of {kept.units} heads kept"
    return {"label": label, "name": name, "parts": parts}


def _part(name: str, layers: Sequence[np.ndarray]) -> dict[str, Any]:
    """A map of the modules of one kind of attention."""
    wide, high = head_maps.size(layers)
    return {"name": name, "source": head_maps.address(head_maps.bitmap(layers)), "wide": wide, "high": high}
