"""Tables of quality in the documents are of the committed records."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from docs.studies import tables
from docs.studies.answers import ROOT, all_asked, revise_pages
from docs.studies.tables import filled, revised, table_of

ASKED = all_asked("table")
TABLE = "| removed | 0 | 50 % | seconds |\n| --- | ---: | ---: | ---: |\n| `b` | 1 | 1 | 5 |\n| `none` | 2 | 2 | 6 |"


def cell(*quality: float) -> SimpleNamespace:
    result = SimpleNamespace(removed=[0, 2, 3, 4], units=4)
    return SimpleNamespace(quality=np.array(quality), record=SimpleNamespace(result=result))


class MadeUp:
    """Two tasks; of the first, ``b`` has two seeds."""

    def tasks(self):
        return [SimpleNamespace(data="x"), SimpleNamespace(data="y")]

    def of(self, task, label):
        cells = {
            ("x", "b"): {0: cell(0.9, 0.6, 0.2, 0.1), 1: cell(0.7, 0.4, 0.2, 0.1)},
            ("y", "b"): {0: cell(0.4, 0.3, 0.2, 0.1)},
            ("x", "none"): {0: cell(0.8, 0.8, 0.8, 0.8)},
            ("y", "none"): {0: cell(0.4, 0.4, 0.4, 0.4)},
        }
        return cells.get((task.data, label), {})


def test_the_tables_are_of_the_records(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tables", "--check"])
    assert revise_pages(tables.__doc__, "table", revised) == 0, capsys.readouterr().out


def test_every_table_by_share_removed_is_asked_for():
    found = sum(len(tables.HEADER.findall(page.read_text(encoding="utf-8"))) for page in (ROOT / "docs").glob("*.md"))
    assert found == len(ASKED)


def test_the_mean_is_over_seeds_and_then_over_tasks_and_sorts_the_rows():
    """Columns that are no share stay as they are."""
    assert filled(TABLE, MadeUp(), []).splitlines()[2:] == ["| `none` | 60.0 | 60.0 | 6 |", "| `b` | 60.0 | 40.0 | 5 |"]
    assert filled(TABLE, MadeUp(), ["x"]).splitlines()[2:] == [
        "| `none` | 80.0 | 80.0 | 6 |",
        "| `b` | 80.0 | 50.0 | 5 |",
    ]


def test_a_method_without_records_or_without_a_level_is_named():
    with pytest.raises(ValueError, match="no records of c on x"):
        filled(TABLE.replace("`b`", "`c`"), MadeUp(), [])
    with pytest.raises(ValueError, match=r"b was not measured without 0\.25 on x"):
        filled(TABLE.replace("50 %", "25 %"), MadeUp(), [])


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked["heading"])
def test_the_figures_at_half_are_those_of_the_leaderboards(asked):
    """By another way: the cells as the committed leaderboards list them."""
    cells = pd.read_csv(ROOT / "results" / asked["folder"] / "leaderboard.csv", dtype={"label": str})
    cells = cells[cells.data.isin(asked.get("tasks", cells.data.unique()))]
    means = cells.groupby(["data", "label"]).at50.mean().groupby("label").mean()
    page = (ROOT / asked["page"]).read_text(encoding="utf-8")
    header, _, *rows = table_of(page, asked)[1].splitlines()
    half = header.split(" | ").index("50 %")
    for row in rows:
        name, printed = row.split("`")[1], row.split(" | ")[half]
        assert float(printed) == pytest.approx(100 * means[name], abs=0.051)
