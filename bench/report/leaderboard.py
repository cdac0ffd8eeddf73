"""The leaderboard in text, from records alone: the same records give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bench.analysis.comparing.over_controls import Over
from bench.analysis.excluded_tasks import exclusion_note, rows_to_average
from bench.analysis.kinds import KINDS
from bench.analysis.machines import machine
from bench.analysis.naming import count, fixed, of_one_model
from bench.analysis.quality import quality_in_short, quality_name
from bench.analysis.summary import TASK, over_tasks
from bench.records.errors import InputError
from bench.records.storage.files import locked
from bench.report import leaderboard_files
from bench.report.area_orders import area_orders
from bench.report.board import Board, read, with_results
from bench.report.leaderboard_files import ABOUT, PICTURE, TABLE, TEXT
from bench.report.left_out import methods_left_out
from bench.report.notes import mixed_machines, mixed_settings
from bench.report.tables.columns import Column, column, columns_of
from bench.report.tables.markdown import aligned, literal, table_in_markdown
from bench.report.tables.metrics import metric_tables
from bench.report.tables.over import OVER, over_cell
from bench.report.tables.published import in_markdown, side_by_side
from bench.report.tables.schedules import schedules
from bench.report.tables.table import Table, latex
from bench.report.tables.table import to_csv as table_to_csv

Figures = tuple[pd.DataFrame, pd.DataFrame]
LEGEND = """\
How to read it. *acc.* (*prob.*, *BLEU*, *quality*) *at 50 %*, *75 %*: test accuracy with that share of the heads
removed, or the quality that the task has instead. *area*: mean accuracy over all shares removed, scaled so that chance
(always giving the commonest answer of the test split; for tasks of lm-eval, guessing among the choices) is 0 and the
unpruned model is 1; *area to 50 %*: the same over the shares up to a half, where models are still of use. For a
language model, accuracy is the mean over its sub-tasks or, where texts are only scored, the probability of a byte
(geometric mean); for translations it is BLEU. *heads off*: largest share removed, among the levels measured, before
accuracy falls by more than 1 or 5 points. *MB* (2^20 bytes) and *speed-up*: of the physically smaller model with half
of its heads; speed-ups are relative to the unpruned model, timed in turn with it or, where the models are too large to
be held together, one after another. *scoring*: wall seconds, and calibration examples sent forward and backward through
the model, with those that recovery takes at all levels. Numbers are means over seeds, followed by ± and the standard
deviation over seeds; without ± some task has only one seed. Random draws are averaged within a seed; size and speed are
those of the first draw. Controls give the scale: `none` removes nothing, `random` needs no score, and an inverse method
removes the heads first that its score calls most important. Rows marked *neurons* remove the same share of the neurons
of every feed-forward layer, with the heads or instead of them (`kwon:parts=both` a share of the parameters of all heads
and neurons, as it divides it). They come last: compare them by *parameters off*, not at the same share of heads, and
with `random-both`, which removes heads and neurons at random. Rows marked *trained* had gates, or gates and weights,
trained at each level for that share of the steps that the task allows its own model; *training*: wall seconds of that
over all levels.

Compare methods within their table, where the same is done to the weights that are left. *over random choice*: points
of accuracy, averaged over all shares removed and not scaled by chance, above the control that chooses at random:
`random` for scores, `random:recover=lstsq` for methods with `recover=lstsq`, `random-retrained` for trained ones, or
the control that removes the same parts. *over no recovery*: above the same method without recovery. *over michel's
choice*: above `michel-retrained`. (`dsp-pipelined`, which trains gates and no weights, is held against `random` and
`michel`.) *over recovery alone*: above `michel:recover=lstsq`, or above the recovered method with the same choice.
In brackets the p-value of the sign-flip test over seeds, adjusted by Holm for all methods of the column, or how many
seeds it needs. No other difference in these tables has been tested: use `headbench compare A B`. With few seeds,
read close rows as ties."""


class Row(NamedTuple):
    """What tells the rows of the tables apart: columns of a metrics table."""

    label: str
    control: bool
    kind: str
    removes: str  # heads, neurons, or both
    trained: str  # share of the training that the task allows its own model, in per cent; empty for none


@contextmanager
def current(folder: Path) -> Iterator[Board]:
    """The board of the records in ``folder``. Inside, nobody else writes the leaderboard there.

    Raises InputError if there are no records.
    """
    with locked(folder) if folder.is_dir() else nullcontext():  # two runs into one folder write one after the other
        yield read(folder)


def write(folder: Path) -> list[Path]:
    """Write ``leaderboard.md``, ``leaderboard.csv`` and ``curves.svg`` to ``folder`` from the records in it."""
    with current(folder) as board:
        return put(board, texts(board))


def texts(board: Board) -> dict[str, str]:
    """What ``leaderboard.md`` and ``leaderboard.csv`` hold, by name."""
    return {TEXT: markdown(board), TABLE: to_csv(board)}


def put(board: Board, texts: Mapping[str, str]) -> list[Path]:
    """Write ``texts`` and the figure to the folder of ``board``; returns their paths.

    A figure of results that no longer exist is removed. Raises InputError where a file of the user is in the way.
    """
    from bench.report.figures.overview import overview  # loads matplotlib, which text does without

    drawn = {PICTURE: overview(board)} if board.records else {}
    return leaderboard_files.put({name: text.encode() for name, text in texts.items()} | drawn, board.folder)


def by_schedule(board: Board, form: str) -> str:
    """The scores of ``board`` by the schedules they ran under, as ``md``, ``csv`` or ``latex``.

    Raises InputError where no cell has a result.
    """
    forms: dict[str, Callable[[Table], str]] = {
        "md": table_in_markdown,
        "csv": lambda table: table_to_csv(table).decode(),
        "latex": lambda table: latex(table).decode(),
    }
    if form not in forms:
        raise InputError(f"--by schedule: expected --format {', '.join(forms)}, not {form}")
    return forms[form](schedules(with_results(board)))


def summary(folder: Path) -> str:
    """The overall table, for a terminal, with a remark if records of several settings or machines are in it."""
    board = read(folder)
    if not board.records:
        return "no cell has a result yet"
    mixed = [f"- {literal(note)}" for note in remarks(board)]
    return "\n".join([_overall(board), *(["", *mixed] if mixed else [])])


def remarks(board: Board) -> list[str]:
    """What belongs under a table that has no notes: that records of several settings, or machines, are in it."""
    records = list(board.records.values())
    return mixed_settings(records) + mixed_machines(records)


def markdown(board: Board, sort: str = "area") -> str:
    """The whole leaderboard in Markdown, with the methods of each table in the order of the column ``sort``."""
    parts = ["# Leaderboard", ""]
    if board.records:
        parts += [f"![{ABOUT}]({PICTURE})", ""]
        parts += [_overall(board, sort), ""]
        for task in board.tasks:
            of_task = board.of_task(task)
            part = _trained_in_words(board.table[(board.table[TASK] == list(task)).all(axis=1)])
            first = part.iloc[0]
            drawn = f" ({of_one_model(of_task)})" if of_one_model(of_task) else ""
            parts += [
                f"## {literal(f'{task.task}: {task.data}, {task.model}')}",
                "",
                f"Unpruned {quality_name(of_task[0])} {100 * part.groupby('seed')['base'].first().mean():.1f} %, "
                f"chance {100 * first['chance']:.1f} %, {first['mb_base']:.3f} MB; "
                f"seeds {', '.join(map(str, sorted(set(part['seed']))))}{drawn}.",
                "",
                _tables(
                    part,
                    columns_of(board),
                    board.over_controls([task]),
                    sort,
                    quality_in_short(of_task),
                ),
                "",
            ]
            for heading, rows in metric_tables(of_task):
                parts += [f"### {heading}", "", aligned([[literal(cell.shown) for cell in row] for row in rows]), ""]
        parts += [LEGEND, ""]
        if published := side_by_side(board.records.values()):
            parts += ["## Published and measured", "", in_markdown(published), ""]
    if board.notes:
        parts += ["## Notes", "", *(f"- {literal(note)}" for note in board.notes)]
    return "\n".join(parts).rstrip() + "\n"


def to_csv(board: Board) -> str:
    """One line for each task, method and seed, with the machine that timed it where there are several."""
    if not board.records:
        return ""
    table = board.table
    if len(board.machines) > 1:
        timed = [machine(board.records[path]) for path in sorted(board.records)]  # in the order of the table
        table = table.assign(machine=timed)
    table = table.sort_values([*TASK, "label", "seed"])
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def _overall(board: Board, sort: str = "area") -> str:
    """Means over the tasks above chance, of the methods that have all of them; those left out are named below."""
    table = _trained_in_words(rows_to_average(board.table))
    over = board.over_controls(board.averaged or board.tasks)
    averaged = [record for task in board.averaged or board.tasks for record in board.of_task(task)]
    parts = [f"## Overall: mean over {count(table.groupby(TASK).ngroups, 'task')}", ""]
    parts += [_tables(table, columns_of(board), over, sort, quality_in_short(averaged))]
    if orders := area_orders(board):
        parts += ["", orders]
    if missing := methods_left_out(board):
        parts += ["", literal(missing)]
    if board.at_chance:
        excluded = {literal(", ".join(task)): quality for task, quality in board.at_chance.items()}
        parts += ["", exclusion_note(excluded, some_remain=bool(board.averaged))]
    return "\n".join(parts)


def _trained_in_words(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` with shares of training in words: ``10 to 20`` where they differ from task to task, empty for none.

    Else a method would have a row for each share, none of them with all tasks.
    """
    shares = table.groupby("label")["trained"]
    ends = [[f"{share:.3g}" if share else "" for share in shares.transform(end)] for end in ("min", "max")]
    told = [low if low == high else f"{low or 0} to {high}" for low, high in zip(*ends, strict=True)]
    return table.assign(trained=told)


def _tables(
    cells: pd.DataFrame, names: Sequence[str], over: Mapping[str, Mapping[str, Over]], sort: str, quality: str
) -> str:
    """A table for each kind, with the methods by ``sort``.

    cells: rows of a metrics table, of which means over tasks and seeds are shown in the columns ``names`` that some
    method has in some seed. over: each method against its controls. quality: what headings call it.
    """
    means, spreads = over_tasks(cells, list(Row._fields), list(names))
    some = cells.groupby([*Row._fields, "seed"])[list(names)].mean(skipna=False).notna().any()
    columns = {name: column(name).of(quality) for name in names if some[name]}
    kinds = means.index.get_level_values("kind")
    parts = []
    for kind in KINDS:
        if (kinds == kind).any():
            table = _table((means[kinds == kind], spreads[kinds == kind]), columns, over, sort)
            parts += [f"### {kind.capitalize()}: {KINDS[kind]}", "", table, ""]
    return "\n".join(parts).rstrip()


def _table(figures: Figures, columns: Mapping[str, Column], over: Mapping[str, Mapping[str, Over]], sort: str) -> str:
    """The table of one kind."""
    means, spreads = figures
    best_first = means.sort_index().sort_values(sort, ascending=False, kind="stable").index
    order = [Row(*row) for row in best_first]
    order.sort(key=lambda row: row.removes != "heads")  # others cannot be compared: last
    compared = [role for role in OVER if any(role in over.get(row.label, {}) for row in order)]
    differences = [f"{OVER[role].headings[order[0].kind]} (points)" for role in compared]
    rows = [["method", *differences, *(column.heading for column in columns.values())]]
    mean, spread = means.to_dict("index"), spreads.to_dict("index")
    for row in order:
        marks = [*(["control"] if row.control else []), *([row.removes] if row.removes != "heads" else [])]
        marks += [f"trained {row.trained} %"] if row.trained else []
        against = [over_cell(over.get(row.label, {}).get(role)) for role in compared]
        rows.append(
            [
                literal(row.label) + (f" ({'; '.join(marks)})" if marks else ""),
                *(cell.shown + cell.spread for cell in against),
                *(
                    _cell(mean[row][name], spread[row][name], each.factor, each.digits)
                    for name, each in columns.items()
                ),
            ]
        )
    return aligned(rows)


def _cell(mean: float, spread: float, factor: float, digits: int) -> str:
    if pd.isna(mean):
        return "–"
    text = fixed(mean * factor, digits)
    return text if pd.isna(spread) else f"{text} ±{spread * factor:.{digits}f}"
