"""Tables of differences in the documents are of the committed records."""

from __future__ import annotations

import sys
from dataclasses import replace

import pandas as pd
import pytest

from docs.studies import differences
from docs.studies.answers import ROOT, Answer, all_asked, revise_pages
from docs.studies.differences import answer_on_all, filled, revised
from docs.studies.tables import table_of

ASKED = all_asked("difference")
ONE = "| compared with `b` | all (95 % interval) | x |\n| --- | ---: | ---: |\n| `a` | |\n| `c` | 1 | 2 |\n| `d` | |"
PAIRS = "| method | compared with | x |\n| --- | --- | ---: |\n| `a` | `b` | |\n| `c` | `d` | |"


def made_up(question):
    """``d`` was not measured on two tasks together."""
    known = {
        ("a", ("x", "y")): Answer(-2.0, -3.0, -1.0, shown=True),
        ("c", ("x", "y")): Answer(0.5, -0.5, 1.5, shown=False),
        ("a", ("x",)): Answer(0.04, -1.0, 1.0, shown=False),
        ("c", ("x",)): Answer(3.0, 1.0, 5.0, shown=True),
        ("d", ("x",)): Answer(-0.04, -1.0, 1.0, shown=False),
    }
    return known.get((question.a, question.tasks))


@pytest.mark.slow
def test_the_tables_are_of_the_records(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["differences", "--check"])
    assert revise_pages(differences.__doc__, "difference", revised) == 0, capsys.readouterr().out


def test_every_table_of_differences_is_asked_for():
    pages = (page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert sum(len(differences.HEADER.findall(page)) for page in pages) == len(ASKED)


def test_figures_are_signed_and_bold_where_shown_and_sort_the_rows():
    assert filled(ONE, {"folder": "f", "columns": [["x", "y"], ["x"]]}, made_up).splitlines()[2:] == [
        "| `c` | +0.5 (-0.5 to 1.5) | **+3.0** |",
        "| `a` | **-2.0** (-3.0 to -1.0) | 0.0 |",
        "| `d` | – | 0.0 |",
    ]


def test_pairs_stay_in_their_order():
    assert filled(PAIRS, {"folder": "f", "columns": [["x"]]}, made_up).splitlines()[2:] == [
        "| `a` | `b` | 0.0 |",
        "| `c` | `d` | **+3.0** |",
    ]


def test_columns_have_to_be_those_asked_for():
    with pytest.raises(ValueError, match="'h' has 2 columns, not 1"):
        filled(ONE, {"heading": "h", "folder": "f", "columns": [["x"]]}, made_up)


def test_a_method_that_lacks_a_task_is_not_compared_on_fewer():
    both = differences.Question("real-llama", "attr", "random", tasks=("TinyStories",))
    assert answer_on_all(both) is not None
    assert answer_on_all(replace(both, tasks=("TinyStories", "no-such"))) is None


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked["heading"])
def test_the_figures_are_those_of_the_leaderboards(asked):
    """By another way: from areas, scaled back to points."""
    cells = pd.read_csv(ROOT / "results" / asked["folder"] / "leaderboard.csv", dtype={"label": str})
    cells["points"] = 100 * cells.area * (cells.base - cells.chance)
    means = cells.groupby(["data", "label"]).points.mean()
    header, _, *rows = table_of((ROOT / asked["page"]).read_text(encoding="utf-8"), asked, differences.HEADER)[
        1
    ].splitlines()
    for row in rows:
        a, b = (*row.split("`")[1:4:2], *header.split("`")[1:2])
        figures = [cell.strip() for cell in row.strip("|").split("|")][-len(asked["columns"]) :]
        for figure, tasks in zip(figures, asked["columns"], strict=True):
            if figure != differences.MISSING:
                expected = sum(means[task, a] - means[task, b] for task in tasks) / len(tasks)
                assert float(figure.replace("*", "").split(" ")[0]) == pytest.approx(expected, abs=0.06)
