"""A task's page: its data and model, how methods rank on it, and its figures."""

from __future__ import annotations

from collections.abc import Sequence

from bench.analysis.naming import calibration_in_words, of_one_model
from bench.analysis.quality import quality_name
from bench.records.schema import TaskKey
from bench.report.agreement import agreement, pairs
from bench.report.board import Board
from bench.report.figures import gallery
from bench.report.figures.heads import gallery as head_gallery
from bench.report.figures.looks import Looks, control, standing_out
from bench.report.files import Files, files_of
from bench.report.links import heads_file, task_slug
from bench.report.notes import notes
from bench.report.pages.definitions import task_definition
from bench.report.pages.published import link
from bench.report.pages.render import render
from bench.report.standing import standing, why_none, words
from bench.report.tables import details, knees, overview
from bench.report.tables.published import PaperComparison
from bench.report.tables.translations import translations

OWN_DATA = ("data", "train", "harness_tasks")  # settings that replace the data that a task has built in


def task_page(
    board: Board,
    task: TaskKey,
    looks: Looks,
    has_heads: bool = False,
    published: Sequence[PaperComparison] = (),
) -> Files:
    """The page with its pictures and tables, one folder below the report's.

    has_heads: whether there is a page of heads to link to. published: tables on this task, which it links to.
    """
    file, found = task_slug(task), standing(board, [task])
    order = "by kind, tier and area" if found else "by kind"
    table = overview.standings(board, [task], found, file, f"{board.name(task)}, {order}", "../")
    metrics = details.sub_tasks(board, task)
    best = standing_out(board, task)
    first = [label for label in best if label != control(board) and board.of(task, label)][:2]
    drawn = [*gallery.task_curves(board, task, looks)]
    drawn += [each for label in first for each in gallery.boxes(board, task, label, looks[label])]
    drawn += [head_gallery.layers(board, task, label) for label in first if board.of(task, label)[0].result.shape]
    drawn += gallery.traces(board, task, looks)
    ranks = gallery.critical(found, f"critical-differences-{file}", "seed")
    heads = head_gallery.heat_maps(board, task, found.labels) if found else []
    both = agreement(board, task)
    agreed = [head_gallery.agreements(board, task, both)] if both else []
    by_pair = [pairs(board, task, both)] if both else []
    turns = knees.inflections(board, task)
    texts = translations(board, task)
    page = render(
        "task.html",
        title=board.name(task),
        root="../",
        lead=" ".join(words(found)) if found else why_none(board, [task]),
        about=_facts(board, task),
        definition=task_definition(task.task, any(name in board.of_task(task)[0].cell.asked for name in OWN_DATA)),
        table=table,
        curves=drawn,
        ranks=ranks,
        heads=heads,
        heads_file=heads_file(task) if has_heads else "",
        agreement=agreed[0] if both else None,
        pairs=by_pair[0] if both else None,
        published=[(each.paper, link(each, "../")) for each in published if task in each.tasks],
        metrics=metrics,
        inflections=turns,
        rule=knees.RULE,
        translations=texts,
        notes=notes(board.of_task(task)),
    )
    tables = [table, *metrics, *by_pair, *(each for each in (turns, texts) if each)]
    return {f"tasks/{file}.html": page} | files_of([*drawn, *ranks, *heads, *agreed], tables)


def _facts(board: Board, task: TaskKey) -> list[tuple[str, str]]:
    records = board.of_task(task)
    result, cell = records[0].result, records[0].cell
    base = {record.cell.seed: record.result.quality[0][0] for record in records}
    drawn = of_one_model(records)
    settings = {
        name: ",".join(value) if isinstance(value, list) else value
        for name, value in cell.asked.items()
        if value and name != "task"
    }
    return [
        ("adapter", task.task),
        ("data", task.data),
        ("model", task.model),
        ("settings", ", ".join(f"{name} = {value}" for name, value in settings.items()) or "defaults"),
        (f"unpruned {quality_name(records[0])}", f"{100 * sum(base.values()) / len(base):.1f} %"),
        ("chance", f"{100 * result.chance:.1f} %"),
        ("test examples", ", ".join(f"{name} {size}" for name, size in result.parts.items()) or "texts only"),
        ("units", f"{result.units} heads, or groups of heads, in {len(result.shape)} attention modules"),
        ("scored on", calibration_in_words(result.calibration or cell.calibration, cell.calibration_from)),
        ("seeds", ", ".join(map(str, board.seeds([task])[task])) + (f" ({drawn})" if drawn else "")),
        ("device", cell.device),
    ]
