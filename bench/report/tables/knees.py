"""Inflection points of the curves that were measured after every single removal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.analysis.knee import Knee, inflection
from bench.analysis.quality import POINTS, quality_name
from bench.analysis.summary import mean_and_spread
from bench.records.schema import FinishedRecord, TaskKey
from bench.report.board import Board
from bench.report.links import method_link, records_link, task_slug
from bench.report.tables.table import Cell, Heading, Table, name_cell, number_cell

RULE = (
    "The inflection point is the knee of the curve: the point farthest from the chord between both ends, on axes "
    "scaled to the unit square; of points that are as far, the one with the least removed. A curve that falls at once "
    "turns where it has fallen."
)


def inflections(board: Board, task: TaskKey) -> Table | None:
    """Units removed at the inflection point and quality there, by method: means over seeds, most units first.

    None where no method has such a point in every seed.
    """
    rows = []
    for label in board.labels:
        records = board.of(task, label)
        knees = [inflection(record) for record in records]
        if records and all(knees):
            rows.append(_row(label, records, [knee for knee in knees if knee], task))
    if not rows:
        return None
    quality = quality_name(board.of_task(task)[0])
    headings = (
        Heading("method", "method"),
        Heading("removed", "removed", "Units removed at the inflection point, mean over seeds"),
        Heading("removed (%)", "share", "The same as a share of all units"),
        Heading(f"{quality} (%)", "quality", f"Test {quality} there"),
        Heading("lost (points)", "lost", f"Points of {quality} below the unpruned model"),
        Heading("seeds", "seeds"),
    )
    rows.sort(key=lambda row: -float(row[1].value))
    return Table(f"inflections-{task_slug(task)}", f"Inflection points: {board.name(task)}", headings, tuple(rows))


def _row(label: str, records: Sequence[FinishedRecord], knees: Sequence[Knee], task: TaskKey) -> tuple[Cell, ...]:
    values = [
        (
            knee.removed,
            POINTS * knee.removed / record.result.units,
            POINTS * knee.quality,
            POINTS * (float(np.mean(record.result.quality, axis=0)[0]) - knee.quality),
        )
        for record, knee in zip(records, knees, strict=True)
    ]
    means, spreads = mean_and_spread(np.array(values))
    source = records_link(label, task, "../")
    cells = (
        number_cell(float(mean), 1, sd=float(spread), href=source) for mean, spread in zip(means, spreads, strict=True)
    )
    return (name_cell(label, method_link(label, "../")), *cells, number_cell(len(records), 0))
