"""What a table of means over tasks leaves out, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from bench.analysis.excluded_tasks import exclusion_note, rows_to_average
from bench.analysis.naming import by_reason, seeds_in_words
from bench.analysis.summary import TASK
from bench.records.schema import TaskKey
from bench.report.board import Board, keeps_all


def left_out(board: Board) -> list[str]:
    """What belongs under a table of means over all tasks: the methods and tasks that are not in it."""
    return [sentence for sentence in (methods_left_out(board), tasks_left_out(board, board.tasks)) if sentence]


def methods_left_out(board: Board) -> str:
    """The methods that lack one of the tasks that are averaged, with the seeds that they have; empty if none does."""
    table = rows_to_average(board.table)
    tasks = table.groupby(["label", *TASK]).size().groupby("label").size()
    lacking = set(tasks.index[tasks < table.groupby(TASK).ngroups])
    rows = table[table["label"].isin(lacking)]
    cells = zip(rows["label"], rows["seed"], strict=True)
    return f"Not shown, as some task is missing: {by_seeds(cells)}." if lacking else ""


def curves_left_out(board: Board, drawn: Collection[str]) -> str:
    """The methods that have all tasks that are averaged and yet no curve of means; empty if none is without.

    drawn: the methods that have one.
    """
    without = [
        label
        for label in board.labels
        if board.averaged
        and label not in drawn
        and not keeps_all(board.any_of(label))
        and all(board.of(task, label) for task in board.averaged)
    ]
    return f"No curve here, as no seed has all tasks at the same levels: {', '.join(without)}." if without else ""


def tasks_left_out(board: Board, tasks: Sequence[TaskKey]) -> str:
    """Those of ``tasks`` whose unpruned model is not better than chance; empty if none is."""
    low = {board.name(task): board.at_chance[task] for task in tasks if task in board.at_chance}
    return exclusion_note(low, some_remain=len(low) < len(tasks))


def by_seeds(cells: Iterable[tuple[str, int]]) -> str:
    """``ae, amp (seeds 1, 2); michel (seed 2)``: methods and seeds, where methods with the same seeds are together."""
    seeds: dict[str, set[int]] = {}
    for label, seed in cells:
        seeds.setdefault(label, set()).add(seed)
    return by_reason({label: seeds_in_words(own) for label, own in seeds.items()})
