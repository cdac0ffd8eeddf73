"""The pictures of a report that show single heads: which ones are kept, and what their scores and gates do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bench.records.protocol import count_at
from bench.records.schema import TaskKey
from bench.report.agreement import OrderAgreement
from bench.report.board import Board
from bench.report.figures.canvas import LEVEL
from bench.report.figures.heads import kept as kept_figures
from bench.report.figures.heads import layers as layer_figures
from bench.report.figures.heads import score_changes as change_figures
from bench.report.figures.heads.change_map import LEGEND
from bench.report.figures.picture import Picture, picture
from bench.report.kept import Kept
from bench.report.links import slug, task_slug

PANELS = 6  # levels in the figure of heads by layer


def heat_maps(board: Board, task: TaskKey, labels: Sequence[str]) -> list[Picture]:
    """Heads kept at ``LEVEL``; none where that was not measured."""
    cells = {label: board.of(task, label) for label in labels}
    middle = {label: count_at(LEVEL, records[0].result.units) for label, records in cells.items()}
    if all(kept_figures.kept_shares(records, middle[label]) is None for label, records in cells.items()):
        return []
    caption = (
        f"Heads kept with {100 * LEVEL:.0f} % of them removed, by method: one row per attention module, the first at "
        "the top; the fuller its colour, the larger the share of seeds (and draws) that keep the head."
    )
    draw = partial(kept_figures.heat_maps, cells, f"{board.name(task)}: heads kept at {100 * LEVEL:.0f} %", LEVEL)
    return [picture(f"kept-{task_slug(task)}", "Heads kept", caption, draw)]


def layers(board: Board, task: TaskKey, label: str) -> Picture:
    """Heads kept in each layer at each budget."""
    name = board.name(task)
    return picture(
        f"layers-{slug(label)}-{task_slug(task)}",
        f"Heads that {label} keeps in each layer",
        f"{name}: heads that {label} keeps in each layer at each budget, mean over seeds.",
        partial(kept_figures.layers_by_budget, board.of(task, label), f"{name}, {label}: heads kept by layer"),
    )


def layers_by_kind(board: Board, task: TaskKey, kept: Kept, random: str) -> Picture:
    """Heads kept in each layer at some levels, by kind of method."""
    between = [removed for removed in kept.removed if removed < kept.units] or list(kept.removed)
    step = -(-len(between) // PANELS)
    name = board.name(task)
    caption = (
        f"{name}: heads kept in each layer, mean over seeds and draws; thick lines are means over methods of a "
        "kind that remove heads and nothing else."
    )
    draw = partial(layer_figures.layers_by_kind, kept, between[::step], f"{name}: heads kept by layer", random)
    return picture(f"layers-{task_slug(task)}", "Heads kept in each layer", caption, draw, ("svg",))


def agreements(board: Board, task: TaskKey, agreement: OrderAgreement) -> Picture:
    """How far methods agree on which heads go first."""
    caption = (
        f"Agreement of two methods' removal orders at the same seed, mean over seeds and draws. Above the "
        "diagonal Kendall's tau: 1 is the same order, 0 what unrelated orders give. Below it the per cent of the "
        f"{agreement.first} heads removed first that both remove: unrelated orders share "
        f"{100 * agreement.expected:.0f}. Similar methods stand side by side."
    )
    if agreement.unordered:
        caption += f" Without a removal order: {', '.join(agreement.unordered)}."
    draw = partial(kept_figures.agreements, agreement, f"{board.name(task)}: agreement of removal orders")
    return picture(f"agreement-{task_slug(task)}", "Agreement of removal orders", caption, draw)


def score_changes(board: Board, task: TaskKey, label: str) -> list[Picture]:
    """How the first removal changes the scores of the other heads; none where heads are scored once."""
    found = change_figures.score_change(board.paths(task, label))
    if found is None:
        return []
    name = board.name(task)
    caption = (
        f"{name}, seed {found.seed}: change of each head's score under {label} after the first removal, in per cent of "
        f"what it was: {LEGEND}."
    )
    draw = partial(change_figures.score_changes, found, f"{name}, {label}: scores after the first removal")
    file, title = f"score-changes-{slug(label)}-{task_slug(task)}", f"Scores of {label} after the first removal"
    return [picture(file, title, caption, draw)]


def gates(board: Board) -> list[Picture]:
    """Gates left open, of each method whose records say how many."""
    pictures = []
    for label in board.labels:
        own = {board.name(task): board.of(task, label) for task in board.tasks}
        if reported := {name: records for name, records in own.items() if kept_figures.open_gates(records)}:
            caption = (
                f"Gates that {label} leaves open under each weight of its penalty: mean and range over the seeds in "
                "which that weight was tried."
            )
            draw = partial(kept_figures.penalties, reported, label)
            pictures.append(picture(f"gates-{slug(label)}", f"Gates that {label} leaves open", caption, draw))
    return pictures
