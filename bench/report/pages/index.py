"""The first page: the answer in words, ranks, curves, cost, and links to everything else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from bench.analysis.kinds import RECOVERED, SCORE
from bench.analysis.naming import all_of_one_model, count
from bench.analysis.quality import CHANCE_ERRORS
from bench.report.area_orders import area_orders
from bench.report.board import Board, removes_heads, role
from bench.report.figures import gallery, lines
from bench.report.figures.heads import gallery as head_gallery
from bench.report.figures.looks import Looks, control
from bench.report.files import Files, files_of
from bench.report.left_out import curves_left_out, methods_left_out
from bench.report.pages.render import render
from bench.report.standing import MARGIN, Standing, why_none, words
from bench.report.tables import details, overview
from bench.report.tables.columns import COLUMNS
from bench.report.tables.published import PaperComparison
from bench.report.tables.table import Table

UNTRAINED = {SCORE: "leave the weights alone", RECOVERED: "recover weights without training"}


def index(
    board: Board,
    standing: Standing | None,
    looks: Looks,
    published: Sequence[PaperComparison] = (),
) -> Files:
    """The page with its pictures and tables; ``published`` are the comparisons on the page of published figures."""
    table, others = main_table(board, standing), overview.speeds(board)
    overall = gallery.overall_curves(board, looks)
    main, ranks = overall[:1], []
    if standing:
        main.insert(0, gallery.areas(board, standing))
        overall.append(gallery.profile(board, standing, looks))
        ranks += gallery.critical(standing, "critical-differences", "task" if len(standing.seeds) > 1 else "seed")
        ranks.append(gallery.pareto(board, standing))
        if (random := control(board)) in standing.labels:
            others.insert(0, details.improvements(standing, random, "across-tasks"))
    gates = head_gallery.gates(board)
    page = render(
        "index.html",
        title="Which attention heads can go, and which method finds them?",
        root="",
        lead=" ".join([_size(board), *lead(board, standing)]),
        main=main,
        table=table,
        missing=methods_left_out(board),
        orders=area_orders(board),
        errors=CHANCE_ERRORS,
        margin=MARGIN,
        overall=overall[1:],
        no_curve=curves_left_out(board, {line.label for line in lines.overall(board, lines.by_parameters)}),
        by_task=[each for task in board.tasks for each in islice(gallery.task_curves(board, task, looks), 1)],
        ranks=ranks,
        gates=gates,
        others=others,
        methods=_by_kind(board),
        tasks=board.tasks,
        averaged=len(board.averaged),
        notes=board.notes,
        published=list(dict.fromkeys(each.paper.source for each in published)),
    )
    return {"index.html": page} | files_of([*main, *overall[1:], *ranks, *gates], [table, *others])


def main_table(board: Board, standing: Standing | None, sort: str = "area") -> Table:
    """The table of all methods over all tasks that have an area, by tier and area or by another column."""
    over = board.averaged or board.tasks
    tasks = f"{len(over)} tasks" if len(over) > 1 else board.name(over[0])
    order = "kind, tier and area" if sort == "area" else f"kind and {COLUMNS[sort].heading}"
    table = overview.standings(board, over, standing, "overall", f"Mean over {tasks}, by {order}")
    return table if sort == "area" else overview.sorted_by(table, sort)


def lead(board: Board, standing: Standing | None) -> list[str]:
    """What the standing says, with the best apart from controls, of all and of each kind; or why there is none."""
    if standing is None:
        return [why_none(board, board.tasks)]
    sentences, named = words(standing), {standing.largest(standing.labels)}
    roles = {label: role(board.any_of(label)) for label in standing.labels}
    groups = {"": [label for label in standing.labels if label not in standing.controls]}
    groups |= {what: [label for label in standing.labels if roles[label] == own] for own, what in UNTRAINED.items()}
    for what, labels in groups.items():
        if labels and (place := standing.largest(labels)) not in named:
            named.add(place)
            area = f"{standing.area.value[place]:.3f}"
            if standing.area.low is not None and standing.area.high is not None:
                area += f" ({standing.area.low[place]:.3f} to {standing.area.high[place]:.3f})"
            random = board.controls(standing.labels[place]).get("random", "")
            value = f"{standing.area.value[standing.labels.index(random)]:.3f}" if random in standing.labels else ""
            beside = f"; {random} has {value}" if value else ""
            which = f"Of the methods that {what}, controls apart" if what else "Controls apart"
            sentences.append(f"{which}, {standing.labels[place]} has the largest area, {area}{beside}.")
    return sentences


def _size(board: Board) -> str:
    seeds = len({record.cell.seed for record in board.records.values()})
    parts = [(len(board.labels), "method"), (len(board.tasks), "task"), (seeds, "seed")]
    drawn = all_of_one_model(map(board.of_task, board.tasks))
    told = f" Seeds are {drawn}." if drawn else ""
    return f"{', '.join(count(*part) for part in parts)}: {count(len(board.records), 'record')}.{told}"


def _by_kind(board: Board) -> list[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = {}
    for label in board.labels:
        record = board.any_of(label)
        groups.setdefault(role(record) if removes_heads(record) else "removes neurons, or nothing", []).append(label)
    return sorted(groups.items())
