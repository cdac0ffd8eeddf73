"""A task's page: data, model and chance, who stands where on it, and its figures."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from bench.analysis.quality import quality_name
from bench.records.schema import TaskKey
from bench.report.board import Board
from bench.report.figures.picture import Picture
from bench.report.pages.layout import figure, grid, page, section, shown
from bench.report.pages.markup import prose, tag, text
from bench.report.standing import Standing, why_none, words
from bench.report.tables.published import LEGEND
from bench.report.tables.table import Table
from tasks.contract import TASKS


def task_page(
    board: Board,
    task: TaskKey,
    found: Standing | None,
    table: Table,
    published: Table | None,
    metrics: Sequence[Table],
    curves: Sequence[Picture],
    wide: Sequence[Picture],
    alike: tuple[Picture, Table] | None,
) -> bytes:
    """The page of a task, one folder below the report's."""
    records = [record for label in board.labels for record in board.of(task, label)]
    result, cell = records[0].result, records[0].cell
    base = [record.result.quality[0][0] for record in records]
    asked = {
        name: ",".join(value) if isinstance(value, list) else value
        for name, value in cell.asked.items()
        if value and name != "task"
    }
    facts = [
        ("adapter", task[0]),
        ("data", task[1]),
        ("model", task[2]),
        ("asked for", ", ".join(f"{name} {value}" for name, value in asked.items()) or "what is built in"),
        (f"unpruned {quality_name(records[0])}", f"{100 * sum(base) / len(base):.1f} %"),
        ("chance", f"{100 * result.chance:.1f} %"),
        ("test examples", ", ".join(f"{name} {size}" for name, size in result.parts.items()) or "texts only"),
        ("units", f"{result.units} in {len(result.shape)} attention modules"),
        ("calibration", f"{cell.calibration} texts"),
        ("seeds", ", ".join(map(str, board.seeds(task)))),
        ("device", cell.device),
    ]
    adapter = TASKS.get(task[0])
    about = [prose(inspect.getdoc(adapter) or ""), *(tag("p", line) for line in adapter.about())] if adapter else []
    parts = [tag("p", " ".join(words(found)) if found else why_none(board, [task]), class_="lead")]
    parts += [tag("dl", *(text(tag("dt", term), tag("dd", told)) for term, told in facts))]
    parts += [section("about", "The adapter", *about)] if about else []
    parts.append(section("table", "Leaderboard", shown(table, "../", interactive=True)))
    parts.append(section("curves", "Quality as more is removed", grid(curves, "../")))
    parts += (
        [section("heads", "Ranks, and the heads that are kept", *(figure(each, "../", wide=True) for each in wide))]
        if wide
        else []
    )
    if alike:
        drawn, pairs = alike
        listed = tag("details", tag("summary", "Each two methods"), shown(pairs, "../", interactive=True))
        parts.append(section("agreement", "Who removes the same heads first", figure(drawn, "../", wide=True), listed))
    if published:
        told = tag("div", prose(LEGEND.replace("*", "")), class_="quiet")
        parts.append(section("published", "Beside published figures", shown(published, "../", interactive=True), told))
    if metrics:
        parts.append(section("metrics", "Metrics of the sub-tasks", *(shown(each, "../") for each in metrics)))
    return page(board.name(task), *parts, root="../", script=True)
