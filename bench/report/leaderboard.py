"""The leaderboard, from records alone: the same records give the same bytes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from bench.analysis.cell_metrics import metrics_table
from bench.analysis.excluded_tasks import exclusion_note, rows_to_average, tasks_at_chance
from bench.analysis.quality import quality_name
from bench.analysis.summary import over_seeds
from bench.records.files import locked, write_whole
from bench.records.schema import FinishedRecord, Record
from bench.records.store import finished, read_current
from bench.report.figures.overview import draw
from bench.report.notes import notes
from bench.report.tables.markdown import aligned, literal
from bench.report.tables.metrics import metric_tables
from bench.report.tables.published import beside_published

# Column of the frame: heading, factor, digits.
COLUMNS = {
    "at50": ("acc. at 50 %", 100, 1),
    "at75": ("acc. at 75 %", 100, 1),
    "area": ("area", 1, 3),
    "within1": ("heads off, -1 pt (%)", 100, 0),
    "within5": ("heads off, -5 pt (%)", 100, 0),
    "parameters50": ("parameters off at 50 % (%)", 100, 1),
    "mb": ("MB at 50 %", 1, 3),
    "speedup1": ("speed-up, batch 1", 1, 2),
    "speedup32": ("speed-up, batch 32", 1, 2),
    "speedup_generate": ("speed-up of generation at 22 %", 1, 2),
    "scoring_seconds": ("scoring (s)", 1, 2),
    "forward": ("forward", 1, 0),
    "backward": ("backward", 1, 0),
    "training_seconds": ("training (s)", 1, 1),
}
TASK = ["task", "data", "model"]
ROW = ["label", "control", "removes", "trained"]
PICTURE = "curves.svg"
LEGEND = """\
How to read it. *acc. at 50 %*, *75 %*: test accuracy with that share of the heads removed. *area*: mean accuracy over
all shares removed, scaled so that chance (always giving the commonest answer of the test split) is 0 and the unpruned
model is 1; a language model's is the mean over its sub-tasks or, where it only scores texts, the probability of a byte
(geometric mean). *heads off*: largest share removed, among the levels measured, before accuracy has fallen by more
than 1 or 5 points. *MB* (of 2^20 bytes), *speed-up*: of the physically smaller model with half of its heads, against
the unpruned one in the same interleaved repeats. *scoring*: wall seconds, and calibration examples sent forward and
backward through the model. Numbers are means over seeds, with the standard deviation over seeds after ±; no ± means
one seed. Random draws are averaged within a seed; size and speed are those of the first. Controls calibrate the eye:
`none` removes nothing, `random` has no score, an inverse removes first what its score holds most important. A row
marked with *neurons* removes the same share of every feed-forward layer's neurons, with the heads or instead of them:
it stands last, and compares with others by the *parameters off*, not at the same level. A row marked *trained* had
gates, or gates and weights, trained at each level for that share of the most steps that the task allows its own model;
*training*: the wall seconds of that, over all levels together. Compare such rows with the retrained controls: the
other methods leave the weights as they are. No difference here has been tested: `headbench compare A B` does that; with
few seeds, read close rows as ties."""


def write(folder: Path) -> list[Path]:
    """Write ``leaderboard.md``, ``leaderboard.csv`` and ``curves.svg`` to ``folder`` from the records in it."""
    with locked(folder):  # two runs into one folder draw in turn
        records, table = _read(folder)
        files = {"leaderboard.md": markdown(records, table).encode(), "leaderboard.csv": to_csv(table).encode()}
        if len(table):
            files[PICTURE] = draw([record for record in records if isinstance(record, FinishedRecord)])
        else:
            (folder / PICTURE).unlink(missing_ok=True)  # of results that are no more
        for name, content in files.items():
            write_whole(folder / name, content)
    return [folder / name for name in files]


def show(folder: Path, form: str) -> str:
    """The leaderboard of the records in ``folder`` as text, ``md`` or ``csv``. Raises InputError if there are none."""
    records, table = _read(folder)
    return markdown(records, table) if form == "md" else to_csv(table)


def summary(folder: Path) -> str:
    """The overall table, for a terminal."""
    _, table = _read(folder)
    return _overall(table) if len(table) else "no cell has a result yet"


def markdown(records: list[Record], table: pd.DataFrame) -> str:
    """The whole leaderboard in Markdown."""
    parts = ["# Leaderboard", ""]
    if len(table):
        parts += [
            f"![Accuracy against the shares of heads and of parameters removed]({PICTURE})",
            "",
            _overall(table),
            "",
        ]
        for names, part in table.groupby(TASK, sort=True):
            first = part.iloc[0]
            task, data, model = names
            of_task = [r for r in records if isinstance(r, FinishedRecord) and r.task == names]
            parts += [
                f"## {literal(f'{task}: {data}, {model}')}",
                "",
                f"Unpruned {quality_name(of_task[0])} {100 * part['base'].mean():.1f} %, "
                f"chance {100 * first.chance:.1f} %, {first['mb_base']:.3f} MB; "
                f"seeds {', '.join(map(str, sorted(set(part['seed']))))}.",
                "",
                _table(part.groupby([*ROW, "seed"], sort=False)[list(COLUMNS)].mean()),
                "",
            ]
            for heading, rows in metric_tables(of_task):
                parts += [f"### {heading}", "", aligned([[literal(cell) for cell in row] for row in rows]), ""]
            if published := beside_published(of_task):
                parts += ["### Beside published figures", "", published, ""]
        parts += [LEGEND, ""]
    if told := notes(records):
        parts += ["## Notes", "", *(f"- {literal(note)}" for note in told)]
    return "\n".join(parts).rstrip() + "\n"


def to_csv(table: pd.DataFrame) -> str:
    """One line for each task, method and seed."""
    if not len(table):
        return ""
    return table.sort_values([*TASK, "label", "seed"]).to_csv(index=False, float_format="%.6g", lineterminator="\n")


def _read(folder: Path) -> tuple[list[Record], pd.DataFrame]:
    """All current records, and the figures of the finished ones."""
    records, _ = read_current(folder)
    return list(records.values()), metrics_table(finished(records))


def _overall(table: pd.DataFrame) -> str:
    """Mean over tasks whose model is above chance, of the methods that have each; what is left out is named below."""
    excluded = {literal(", ".join(task)): quality for task, quality in tasks_at_chance(table).items()}
    some_remain = len(excluded) < table.groupby(TASK).ngroups
    table = rows_to_average(table)
    tasks = table.groupby(TASK).ngroups
    per_seed = table.groupby([*ROW, "seed"])[list(COLUMNS)].mean(skipna=False)
    whole = table.groupby([*ROW, "seed"]).size() == tasks
    parts = [f"## Overall: mean over {tasks} {'task' if tasks == 1 else 'tasks'}", "", _table(per_seed[whole])]
    if not whole.all():
        missing = sorted({f"{label} (seed {seed})" for label, *_, seed in per_seed[~whole].index})
        parts += ["", f"Not shown, as some task is missing: {literal(', '.join(missing))}."]
    if excluded:
        parts += ["", exclusion_note(excluded, some_remain)]
    return "\n".join(parts)


def _table(per_seed: pd.DataFrame) -> str:
    """Methods, best area first, with mean and spread over the seeds in ``per_seed`` (ROW, seed)."""
    columns = {name: shown for name, shown in COLUMNS.items() if per_seed[name].notna().any()}
    means, spreads = over_seeds(per_seed, ROW)
    order = means.sort_index().sort_values("area", ascending=False, kind="stable")
    order = order.loc[sorted(order.index, key=lambda row: row[2] != "heads")]  # what cannot be compared comes last
    rows = [["method", *(heading for heading, _, _ in columns.values())]]
    for row in order.index:
        cells = [
            _cell(means.loc[row, name], spreads.loc[row, name], factor, digits)
            for name, (_, factor, digits) in columns.items()
        ]
        label, control, what, share = row
        marks = [*(["control"] if control else []), *([what] if what != "heads" else [])]
        marks += [f"trained {share:.3g} %"] if share else []
        rows.append([literal(label) + (f" ({'; '.join(marks)})" if marks else ""), *cells])
    return aligned(rows)


def _cell(mean: float, spread: float, factor: float, digits: int) -> str:
    if pd.isna(mean):
        return "–"
    text = f"{mean * factor:.{digits}f}"
    return text if pd.isna(spread) else f"{text} ±{spread * factor:.{digits}f}"
