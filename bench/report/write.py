"""The verb ``report``: a folder with everything of a run, that opens from disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.errors import InputError
from bench.records import Record
from bench.report import board_tables, curve_figures, head_figures, lines, rank_figures, tables
from bench.report.board import Board, read, removes_heads
from bench.report.board_tables import place
from bench.report.index_page import index
from bench.report.markup import slug
from bench.report.method_page import method_page
from bench.report.page import GENERATOR, page, style
from bench.report.picture import Picture, picture
from bench.report.records_page import records_page
from bench.report.standing import Standing, standing
from bench.report.tables import Table
from bench.report.task_page import task_page
from bench.stats.samples import TaskKey
from bench.suite import count_at

LEVEL = 0.5  # share of heads removed at which maps show what is kept
# Axis, its name, limits, and what a record gives; quality stands on the other.
AXES: dict[str, tuple[str, tuple[float | None, float | None] | None, Callable[[Record], lines.Points | None]]] = {
    "heads": ("share of heads removed", (0, 1), lines.by_heads),
    "parameters": ("share of parameters removed", (0, None), lines.by_parameters),
    "latency": ("latency, batch 32, of the unpruned model's", None, lines.by_speed),
    "size": ("size, of the unpruned model's", None, lines.by_size),
}


def report(folder: Path, out: Path) -> Path:
    """Write the report of the records in ``folder`` to ``out``; returns its first page.

    A report that is there is replaced. Raises InputError where there are no records, or ``out`` holds something else.
    """
    board = read(folder)
    first = out / "index.html"
    if out.exists() and not _is_report(out):
        raise InputError(f"{out}: there is something else than a report: give another folder by --out")
    files = build(board, out)
    fresh = out.with_name(out.name + ".tmp")
    shutil.rmtree(fresh, ignore_errors=True)
    for name, content in files.items():
        (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        (fresh / name).write_bytes(content)
    if out.exists():
        shutil.rmtree(out)
    fresh.rename(out)
    return first


def build(board: Board, out: Path) -> dict[str, bytes]:
    """Every file of the report by its path in it, for a report that will lie at ``out``."""
    found = standing(board, board.tasks)
    looks = lines.looks(board, found)
    files: dict[str, bytes] = {"page.css": style().encode(), "records.html": records_page(board, out)}
    by_heads = {task: _curve(board, task, looks, "heads") for task in board.tasks}
    for task in board.tasks:
        files |= _task(board, task, looks, by_heads[task])
    for label in board.labels:
        files |= _method(board, label, found, looks)
    return files | _index(board, found, looks, list(by_heads.values()))


def alone(folder: Path, form: str) -> str:
    """The table of all tasks, as one page of HTML or as LaTeX. Raises InputError where there are no results."""
    board = read(folder)
    table = _main_table(board, standing(board, board.tasks))
    if form == "latex":
        return tables.latex(table).decode()
    bare = Table(
        table.name,
        table.caption,
        table.headings,
        tuple(tuple(tables.Cell(c.shown, c.value, c.spread) for c in row) for row in table.rows),  # nothing to lead to
        table.marks,
    )
    return page("Leaderboard", tables.html(bare, interactive=True), script=True, links=False).decode()


def _main_table(board: Board, found: Standing | None) -> Table:
    tasks = f"{len(board.tasks)} tasks" if len(board.tasks) > 1 else board.name(board.tasks[0])
    return board_tables.standings(board, board.tasks, found, "overall", f"Mean over {tasks}, by tier and area")


def _index(
    board: Board, found: Standing | None, looks: dict[str, lines.Look], by_task: list[Picture]
) -> dict[str, bytes]:
    table = _main_table(board, found)
    others = board_tables.speeds(board)
    if len(others) == 1:  # of a single machine: the main table has them
        others = []
    main, ranks = None, []
    if found:
        main = picture(
            "areas", "Area by method", "Area by method, with " + _bars(found), partial(rank_figures.areas, board, found)
        )
        if (random := lines.control(board)) in found.labels:
            others.insert(0, board_tables.improvements(found, random, "across-tasks"))
        ranks = _ranks(board, found)
    overall = [
        picture(
            f"overall-{axis}",
            f"Quality against {what}",
            f"Quality against {what}: mean over tasks, with bands of one standard deviation over seeds.",
            partial(
                curve_figures.curves,
                drawn,
                looks,
                "Mean over tasks",
                what,
                "quality: 0 chance, 1 unpruned",
                0.0,
                limits,
            ),
        )
        for axis, (what, limits, points) in AXES.items()
        if (drawn := lines.overall(board, points))
    ]
    if found:
        overall.append(
            picture(
                "profile",
                "Performance profile",
                "Share of runs whose area is above each threshold; higher is better.",
                partial(curve_figures.profile, found, looks),
            )
        )
    opened = {
        label: {board.name(t): board.of(t, label) for t in board.tasks if head_figures.opened(board.of(t, label))}
        for label in board.labels
    }
    gates = [
        picture(
            f"gates-{slug(label)}",
            f"Gates that {label} leaves open",
            f"Gates that {label} leaves open under each weight of its penalty, mean and range over seeds.",
            partial(head_figures.penalties, records, label),
        )
        for label, records in opened.items()
        if records
    ]
    pictures = [*([main] if main else []), *overall, *ranks, *gates]  # a task's own come with its page
    first = index(board, found, table, others, main, overall, by_task, ranks, gates)
    return {"index.html": first} | _files(pictures, [table, *others])


def _ranks(board: Board, found: Standing) -> list[Picture]:
    pictures = [_critical(found, "critical-differences", "tasks" if len(board.tasks) > 1 else "seeds")]
    pictures.append(
        picture(
            "pareto",
            "Quality against cost",
            "Area against the examples sent through the model to score or train; the line joins methods that no "
            "cheaper one beats. Names are left out where there is no room.",
            partial(rank_figures.pareto, board, found),
        )
    )
    return [each for each in pictures if each]


def _critical(found: Standing, name: str, blocks: str) -> Picture | None:
    ranks = found.ranking
    if ranks is None:
        return None
    told = (
        f"Mean ranks; a bar joins methods not shown to differ (Friedman p = {ranks.friedman:.2g}, then Wilcoxon's test "
        "with Holm's correction, at 5 %)."
    )
    if ranks.blocks < ranks.needed:
        told += f" {ranks.blocks} {blocks} cannot show any pair to differ: {ranks.needed} could."
    return picture(name, "Critical differences", told, partial(rank_figures.critical_differences, found, blocks))


def _task(board: Board, task: TaskKey, looks: dict[str, lines.Look], by_heads: Picture) -> dict[str, bytes]:
    file = place(task)
    found = standing(board, [task])
    table = board_tables.standings(board, [task], found, file, f"{board.name(task)}, by tier and area", "../")
    metrics = board_tables.sub_tasks(board, task)
    curves = [by_heads, *(_curve(board, task, looks, axis) for axis in AXES if axis != "heads")]
    curves += [each for label in _first_shown(board, looks) if (each := _boxes(board, task, label, looks[label], True))]
    curves += [_layers(board, task, label) for label in _first_shown(board, looks) if board.of(task, label)]
    wide = [each for each in [_critical(found, f"critical-differences-{file}", "seeds") if found else None] if each]
    cells = {label: board.of(task, label) for label in (found.labels if found else ())}
    if any(head_figures.kept_shares(records, _middle(records)) is not None for records in cells.values()):
        wide.append(
            picture(
                f"kept-{file}",
                "Heads kept at 50 %",
                "Heads kept with half of them removed, by method: a row is a layer, the first at the top; the darker, "
                "the larger the share of seeds (and draws) that keep the head.",
                partial(head_figures.heat_maps, cells, f"{board.name(task)}: heads kept at 50 %", LEVEL),
            )
        )
    done = task_page(board, task, found, table, metrics, curves, wide)
    return {f"tasks/{file}.html": done} | _files([*curves, *wide], [table, *metrics])


def _method(board: Board, label: str, found: Standing | None, looks: dict[str, lines.Look]) -> dict[str, bytes]:
    look = looks.get(label, lines.Look(lines.SERIES[0], "o"))
    own = {task: records for task in board.tasks if (records := board.of(task, label)) and removes_heads(records[0])}
    pictures = [drawn for task in own if (drawn := _boxes(board, task, label, look, False))]
    layers = [board_tables.by_layer(board, task, records) for task, records in own.items()]
    table = board_tables.by_task(board, label, f"method-{slug(label)}")
    stability = board_tables.stabilities(board, label, "../")
    done = method_page(board, label, found, table, stability, pictures, layers)
    return {f"methods/{slug(label)}.html": done} | _files([], [table])


def _layers(board: Board, task: TaskKey, label: str) -> Picture:
    name = board.name(task)
    return picture(
        f"layers-{slug(label)}-{place(task)}",
        f"Heads that {label} keeps in each layer",
        f"{name}: heads that {label} keeps in each layer at each budget, mean over seeds.",
        partial(head_figures.layers_by_budget, board.of(task, label), f"{name}, {label}: heads kept by layer"),
    )


def _curve(board: Board, task: TaskKey, looks: dict[str, lines.Look], axis: str) -> Picture:
    what, limits, points = AXES[axis]
    drawn = lines.of_task(board, task, points)
    chance = next(record["result"]["chance"] for label in board.labels for record in board.of(task, label))
    return picture(
        f"{axis}-{place(task)}",
        f"Quality against {what}",
        f"{board.name(task)}: test quality against {what}, with bands of one standard deviation over seeds.",
        partial(curve_figures.curves, drawn, looks, board.name(task), what, "test quality", chance, limits),
    )


def _first_shown(board: Board, looks: dict[str, lines.Look]) -> list[str]:
    """The first of the methods that stand out, beside random removal."""
    return [label for label in looks if label != lines.control(board)][:2]


def _boxes(board: Board, task: TaskKey, label: str, look: lines.Look, files: bool) -> Picture | None:
    random, records = lines.control(board), board.of(task, label)
    line = lines.of_method(board, task, label, lines.by_heads)
    if not random or label == random or not line or not board.of(task, random):
        return None
    return picture(
        f"random-{slug(label)}-{place(task)}",
        f"{label} against random removal",
        f"{board.name(task)}: {label} (line, with a band of one standard deviation over seeds) against random removal "
        "(boxes: middle half of all seeds and draws) at each level.",
        partial(
            curve_figures.boxes, board.of(task, random), line, look, board.name(task), random,
            records[0]["result"]["chance"],
        ),
        files,
    )  # fmt: skip


def _middle(records: list[Record]) -> int:
    return count_at(LEVEL, records[0]["result"]["units"])


def _bars(found: Standing) -> str:
    if found.area.low is None:
        return "the standard deviation over seeds; bands part the tiers."
    return "95 % intervals over seeds; bands part the tiers."


def _files(pictures: list[Picture], written: list[Table]) -> dict[str, bytes]:
    files = {f"figures/{each.name}.{ending}": content for each in pictures for ending, content in each.files.items()}
    for table in written:
        files[f"tables/{table.name}.csv"] = tables.to_csv(table)
        files[f"tables/{table.name}.tex"] = tables.latex(table)
    return files


def _is_report(out: Path) -> bool:
    """Whether a folder is one that this verb wrote, or is empty."""
    if not out.is_dir():
        return False
    first = out / "index.html"
    return not any(out.iterdir()) or (first.is_file() and GENERATOR in first.read_text(encoding="utf-8")[:2000])
