"""The first page: what the numbers say, who stands where, curves, cost, and the way to everything else."""

from __future__ import annotations

from collections.abc import Sequence

from bench.analysis.quality import CHANCE_ERRORS
from bench.report.board import Board, kind, removes_heads
from bench.report.figures.picture import Picture
from bench.report.pages.layout import figure, grid, listed, page, section, shown
from bench.report.pages.links import method_of, task_of
from bench.report.pages.markup import Safe, tag, text
from bench.report.standing import MARGIN, Standing, why_none, words
from bench.report.tables.published import side_by_side
from bench.report.tables.table import Table

HOW_TO_READ = (
    "area: mean quality over all shares of heads removed, scaled so that chance is 0 and the unpruned model is 1. "
    "Quality is the share of right answers on test data that no method has seen; a language model's is the mean over "
    "its sub-tasks or, where it only scores texts, the probability of a byte. "
    f"A task whose unpruned model is not better than chance by {CHANCE_ERRORS} standard errors in every seed has none.",
    "tier: methods of one tier are practically equal, or the seeds cannot tell them from the tier's best, at the 5 % "
    f"level for all pairs together and with a margin of {MARGIN:g} points of area (of 100).",
    "[low, high]: 95 % bootstrap interval over seeds; ±: standard deviation over seeds. Every number leads to the "
    "records that it is made from.",
    "Scores leave the weights alone. Trained methods had gates, or gates and weights, trained at each level: compare "
    "them with the trained controls. Methods that remove neurons compare by parameters removed, not by share of heads; "
    "they are not ranked.",
)


def index(
    board: Board,
    found: Standing | None,
    table: Table,
    others: Sequence[Table],
    main: Sequence[Picture],
    overall: Sequence[Picture],
    by_task: Sequence[Picture],
    ranks: Sequence[Picture],
    gates: Sequence[Picture],
) -> bytes:
    """The page. ``others`` are the tables after the main one; pictures may be missing where there are no data."""
    seeds = sorted({record.cell.seed for record in board.records.values()})
    size = (
        f"{_count(len(board.labels), 'method')}, {_count(len(board.tasks), 'task')}, {_count(len(seeds), 'seed')}: "
        f"{_count(len(board.records), 'record')}."
    )
    parts = [tag("p", " ".join([size, *lead(board, found)]), class_="lead")]
    parts.append(_row(main))
    parts.append(section("table", "Leaderboard", shown(table, interactive=True), listed(HOW_TO_READ)))
    if overall or by_task:
        parts.append(
            section(
                "curves",
                "Quality as more is removed",
                tag("h3", "Mean over tasks"),
                grid(overall),
                tag("h3", "By task; parameters, latency, random draws and kept heads are on each task's page"),
                grid(by_task),
            )
        )
    if ranks:
        parts.append(
            section("ranks", "Ranks and cost", tag("div", *(figure(each, wide=True) for each in ranks), class_="hero"))
        )
    if gates:
        parts.append(section("gates", "Gates left open by a penalty", grid(gates)))
    parts += [section(other.name, other.caption.partition(",")[0], shown(other)) for other in others]
    parts.append(section("methods", "Methods", *_methods(board)))
    tasks = [tag("li", tag("a", ", ".join(task), href=task_of(task))) for task in board.tasks]
    parts.append(section("tasks", "Tasks", tag("ul", *tasks)))
    parts.append(section("notes", "Notes", listed([*board.notes, _origin(board)])))
    return page("Which attention heads can go, and which method finds them?", *parts, script=True)


def _origin(board: Board) -> Safe:
    """Whose figures these are."""
    beside = [
        task for task in board.tasks if side_by_side([r for label in board.labels for r in board.of(task, label)])
    ]
    if not beside:
        return text("All figures are of these records; none is a paper's.")
    links = [
        text(", " if place_ else "", tag("a", board.name(task), href=f"{task_of(task)}#published"))
        for place_, task in enumerate(beside)
    ]
    return text("All figures are of these records, but those marked as published, beside ours on: ", *links, ".")


def lead(board: Board, found: Standing | None) -> list[str]:
    """What the standing says, and the best score where that is not the best of all; or why there is no standing."""
    if found is None:
        return [why_none(board, board.tasks)]
    said = words(found)
    scores = [label for label in found.labels if kind(board.any_of(label)) == "score"]
    if scores and (index := found.largest(scores)) != found.largest(found.labels):
        best, value = found.labels[index], found.area.value[index]
        told = f"Of the methods that leave the weights alone {best} has the largest area, {value:.3f}"
        if found.area.low is not None and found.area.high is not None:
            told += f" ({found.area.low[index]:.3f} to {found.area.high[index]:.3f})"
        said.append(f"{told}; random removal has {_random(board, found)}." if _random(board, found) else f"{told}.")
    return said


def _row(pictures: Sequence[Picture]) -> Safe:
    """Pictures beside each other as large as they are, where there is room."""
    return tag("div", *(figure(each) for each in pictures), class_="hero")


def _random(board: Board, found: Standing) -> str:
    for place_, label in enumerate(found.labels):
        if board.any_of(label).cell.method == "random":
            return f"{found.area.value[place_]:.3f}"
    return ""


def _methods(board: Board) -> list[Safe]:
    """Links to the methods' pages by kind."""
    groups: dict[str, list[str]] = {}
    for label in board.labels:
        record = board.any_of(label)
        groups.setdefault(kind(record) if removes_heads(record) else "removes neurons, or nothing", []).append(label)
    return [
        text(
            tag("h3", which),
            tag("ul", *(tag("li", tag("a", each, href=method_of(each))) for each in labels), class_="tags"),
        )
        for which, labels in sorted(groups.items())
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number != 1 else "")
