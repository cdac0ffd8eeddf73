"""What the unpruned model and each method's smaller one make of some test examples."""

from __future__ import annotations

from bench.records.schema import TaskKey
from bench.report.board import Board, keeps_all
from bench.report.links import method_link, task_slug
from bench.report.tables.table import Cell, Heading, Table, name_cell, number_cell

NONE = float("nan")


def translations(board: Board, task: TaskKey) -> Table | None:
    """A group of rows for each example: source, reference, and the translations of one seed; None without any.

    The seed is the first that a method has, and methods without that seed are left out.
    """
    told = [record for record in board.of_task(task) if record.result.translations]
    seed = min((record.cell.seed for record in told), default=0)
    told = [record for record in told if record.cell.seed == seed]
    if not told:
        return None
    rows: list[tuple[Cell, ...]] = []
    groups: list[str] = []
    for place, example in enumerate(told[0].result.translations, 1):
        own = [
            (name_cell("source"), number_cell(NONE, 0, missing=""), name_cell(example.source)),
            (name_cell("reference"), number_cell(NONE, 0, missing=""), name_cell(example.reference)),
            (name_cell("unpruned"), number_cell(0, 0), name_cell(example.translations[0])),
        ]
        for record in told:
            by_removed = next(
                (e.translations for e in record.result.translations if e.source == example.source), {0: ""}
            )
            if not keeps_all(record) and (removed := max(by_removed)):
                label = record.cell.label
                own.append(
                    (
                        name_cell(label, method_link(label, "../")),
                        number_cell(removed, 0),
                        name_cell(by_removed[removed]),
                    )
                )
        rows += own
        groups += [f"example {place}"] * len(own)
    headings = (
        Heading("text or method", "of"),
        Heading("removed", "removed", f"Of {told[0].result.units} units"),
        Heading("text", "text"),
    )
    caption = f"{board.name(task)}: the first test examples, translated by the models of seed {seed}"
    return Table(f"{task_slug(task)}-translations", caption, headings, tuple(rows), groups=tuple(groups))
