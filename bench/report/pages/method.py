"""A method's page: what it is, how it did, what it cost, and its records."""

from __future__ import annotations

from bench.analysis.kinds import KINDS, kind
from bench.report.board import Board, removes_heads, role
from bench.report.figures import gallery
from bench.report.figures.heads import gallery as head_gallery
from bench.report.figures.looks import GREY, Looks
from bench.report.files import Files, files_of
from bench.report.links import slug
from bench.report.pages.definitions import definition
from bench.report.pages.render import render
from bench.report.standing import Standing
from bench.report.tables import details, overview

# By what they control for, as in ``bench.analysis.comparing.controls``.
CONTROLS = {"random": "random control", "michel": "control with a known choice", "untreated": "control of new weights"}


def method_page(board: Board, label: str, standing: Standing | None, looks: Looks) -> Files:
    """The page with its pictures and tables, one folder below the report's."""
    look, method = looks.get(label, GREY), board.any_of(label).cell.method
    own = {task: records for task in board.tasks if (records := board.of(task, label)) and removes_heads(records[0])}
    changes = [each for task in own for each in head_gallery.score_changes(board, task, label)]
    table = overview.by_task(board, label, f"method-{slug(label)}")
    page = render(
        "method.html",
        title=label,
        root="../",
        method=method,
        about=_facts(board, label, standing),
        definition=definition("methods", method),
        by_task=table,
        curves=[*(each for task in board.tasks for each in gallery.boxes(board, task, label, look, ())), *changes],
        layers=[details.by_layer(board, task, records) for task, records in own.items()],
        stability=details.stabilities(board, label, "../"),
    )
    return {f"methods/{slug(label)}.html": page} | files_of(changes, [table])


def _facts(board: Board, label: str, standing: Standing | None) -> list[tuple[str, str]]:
    record = board.any_of(label)
    options = ", ".join(f"{name}={_plain(value)}" for name, value in record.cell.options.items())
    facts = [
        ("kind", f"{role(record)}: {KINDS[kind(record.cell)]}"),
        ("source", record.cell.source),
        ("method", record.cell.method),
        ("options", options or "none"),
        ("order", "what its score calls most important is removed first" if record.cell.options.get("inverse") else ""),
        ("shape", record.cell.shape or ""),
    ]
    if standing and (tier := standing.tier(label)):
        facts.append(("tier", f"{tier} of {len(standing.tiers[standing.kind(label)].members)}"))
    facts += [(CONTROLS[what], control) for what, control in board.controls(label).items()]
    if standing and label in standing.unranked:
        facts.append(("not ranked", standing.unranked[label]))
    return [(term, description) for term, description in facts if description]


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
