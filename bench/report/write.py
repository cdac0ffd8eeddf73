"""The verb ``report``: a folder with everything of a run, that opens from disk."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.records.errors import InputError
from bench.records.schema import TaskKey
from bench.report.agreement import agreement, pairs
from bench.report.board import Board, read, removes_heads
from bench.report.figures import gallery, lines
from bench.report.figures.picture import Picture
from bench.report.pages.index import index
from bench.report.pages.layout import GENERATOR, page, style
from bench.report.pages.links import place
from bench.report.pages.markup import slug
from bench.report.pages.method import method_page
from bench.report.pages.records import records_page
from bench.report.pages.task import task_page
from bench.report.standing import Standing, standing
from bench.report.tables import details as detail_tables
from bench.report.tables import overview as board_tables
from bench.report.tables import table as tables
from bench.report.tables.table import Table


def report(folder: Path, out: Path) -> Path:
    """Write the report of the records in ``folder`` to ``out``; returns its first page.

    A report that is there is replaced. Raises InputError where there are no records, or ``out`` holds something else.
    """
    board = read(folder)
    first = out / "index.html"
    if out.exists() and not _is_report(out):
        raise InputError(f"{out}: there is something else than a report: give another folder by --out")
    files, place = build(board, out), out.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as temporary:
        fresh, former = Path(temporary) / "new", Path(temporary) / "old"
        for name, content in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_bytes(content)
        former.mkdir()
        place.mkdir(exist_ok=True)  # the folder itself stays: someone may be in it
        for source, target in ((place, former), (fresh, place)):
            for each in sorted(source.iterdir()):
                each.rename(target / each.name)
    return first


def build(board: Board, out: Path) -> dict[str, bytes]:
    """Every file of the report by its path in it, for a report that will lie at ``out``."""
    found = standing(board, board.tasks)
    looks = lines.looks(board, found)
    files: dict[str, bytes] = {"page.css": style().encode(), "records.html": records_page(board, out)}
    curves = {task: gallery.task_curves(board, task, looks) for task in board.tasks}
    for task in board.tasks:
        files |= _task(board, task, looks, curves[task])
    for label in board.labels:
        files |= _method(board, label, found, looks)
    return files | _index(board, found, looks, [each for own in curves.values() for each in own[:1]])


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
    over = board.averaged or board.tasks
    tasks = f"{len(over)} tasks" if len(over) > 1 else board.name(over[0])
    return board_tables.standings(board, over, found, "overall", f"Mean over {tasks}, by tier and area")


def _index(board: Board, found: Standing | None, looks: gallery.Looks, by_task: list[Picture]) -> dict[str, bytes]:
    table, others = _main_table(board, found), board_tables.speeds(board)
    overall = gallery.overall_curves(board, looks)
    main, ranks = [], []
    if found:
        main.append(gallery.areas(board, found))
        overall.append(gallery.profile(found, looks))
        ranks += gallery.critical(found, "critical-differences", "tasks" if len(found.seeds) > 1 else "seeds")
        ranks.append(gallery.pareto(board, found))
        if (random := lines.control(board)) in found.labels:
            others.insert(0, detail_tables.improvements(found, random, "across-tasks"))
    gates = gallery.gates(board)
    first = index(board, found, table, others, [*main, *overall[:1]], overall[1:], by_task, ranks, gates)
    return {"index.html": first} | _files([*main, *overall, *ranks, *gates], [table, *others])


def _task(board: Board, task: TaskKey, looks: gallery.Looks, curves: list[Picture]) -> dict[str, bytes]:
    file, found = place(task), standing(board, [task])
    table = board_tables.standings(board, [task], found, file, f"{board.name(task)}, by tier and area", "../")
    metrics, published = detail_tables.sub_tasks(board, task), detail_tables.published(board, task)
    first = [label for label in looks if label != lines.control(board) and board.of(task, label)][:2]
    own = [each for label in first for each in gallery.boxes(board, task, label, looks[label])]
    own += [gallery.layers(board, task, label) for label in first]
    wide = gallery.critical(found, f"critical-differences-{file}", "seeds")
    wide += gallery.heat_maps(board, task, found.labels) if found else []
    both = agreement(board, task)
    alike = (gallery.agreements(board, task, both), pairs(board, task, both)) if both else None
    done = task_page(board, task, found, table, published, metrics, [*curves, *own], wide, alike)
    drawn, written = [*curves, *own, *wide], [table, *metrics]
    if published:
        written.append(published)
    if alike:
        drawn.append(alike[0])
        written.append(alike[1])
    return {f"tasks/{file}.html": done} | _files(drawn, written)


def _method(board: Board, label: str, found: Standing | None, looks: gallery.Looks) -> dict[str, bytes]:
    look = looks.get(label, lines.Look(lines.SERIES[0], "o"))
    own = {task: records for task in board.tasks if (records := board.of(task, label)) and removes_heads(records[0])}
    pictures = [each for task in own for each in gallery.boxes(board, task, label, look, forms=())]
    shifts = [each for task in own for each in gallery.shifts(board, task, label)]
    layers = [detail_tables.by_layer(board, task, records) for task, records in own.items()]
    table = board_tables.by_task(board, label, f"method-{slug(label)}")
    stability = detail_tables.stabilities(board, label, "../")
    done = method_page(board, label, found, table, stability, [*pictures, *shifts], layers)
    return {f"methods/{slug(label)}.html": done} | _files(shifts, [table])


def _files(pictures: Sequence[Picture], written: Sequence[Table]) -> dict[str, bytes]:
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
