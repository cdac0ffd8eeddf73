"""Scores, methods that recover weights and methods that train: each kind stands by itself, beside its own controls."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from bench.analysis.kinds import KINDS
from bench.report.board import Board, read
from bench.report.figures import ranks as rank_figures
from bench.report.figures.looks import looks, standing_out
from bench.report.leaderboard import markdown
from bench.report.pages.index import lead, main_table
from bench.report.pages.method import method_page
from bench.report.standing import standing
from bench.report.tables.overview import sorted_by
from bench.report.tables.table import latex, to_csv
from bench.report.write import main_table_as

# By kind, best first: the area of each method, in per cent.
AREAS = {
    "score": {"michel": 50, "random": 40},
    "recovered": {"michel:recover=lstsq": 65, "obs-compensated": 60, "random:recover=lstsq": 55},
    "trained": {"michel-retrained": 85, "dsp-joint": 80, "random-retrained": 75},
}
LABELS = [label for of_kind in AREAS.values() for label in of_kind]


@pytest.fixture
def folder(write):
    """A run with methods of all kinds, in eight seeds of one task."""
    for kind, of_kind in AREAS.items():
        for label, at_half in of_kind.items():
            cell = {"options": {"recover": "lstsq"}} if "recover" in label else {}
            if label == "obs-compensated":
                cell = {"shape": "joint"}
            for seed in range(8):
                where = write(
                    label, at_half, seed, noise=0.02, cell=cell, control="random" in label or "retrained" in label,
                    trained=0.1 if kind == "trained" else None,
                )  # fmt: skip
    return where


@pytest.fixture
def board(folder) -> Board:
    return read(folder)


def test_each_kind_has_a_table_of_its_own_in_markdown(board):
    overall = markdown(board).split("## classification")[0]
    for kind, part in zip(AREAS, overall.split("### ")[1:], strict=True):
        assert part.startswith(f"{kind.capitalize()}: {KINDS[kind]}\n")
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if "|" in line]
        assert [row[0].partition(" ")[0] for row in rows[2:]] == list(AREAS[kind])
        heading = rows[0].index("over random choice (points)")
        shown = {row[0].partition(" ")[0]: row[heading] for row in rows[2:]}
        random = next(label for label in AREAS[kind] if label.startswith("random"))
        assert shown.pop(random) == "–"
        assert all(cell.startswith("+") and "(p = 0.0" in cell for cell in shown.values())
        assert ("over michel's choice (points)" in rows[0]) == (kind == "trained")
        assert ("over no recovery (points)" in rows[0]) == (kind == "recovered")
        assert ("over recovery alone (points)" in rows[0]) == (kind == "trained")


def test_the_table_of_the_pages_has_a_group_for_each_kind(board, folder, parse):
    found = standing(board, board.tasks)
    table = main_table(board, found)
    assert [row[0].shown for row in table.rows] == LABELS
    assert [(group.partition(":")[0], len(rows)) for group, rows in table.parts] == [
        (kind, len(of_kind)) for kind, of_kind in AREAS.items()
    ]
    over = board.over_controls(board.tasks)
    for row in csv.DictReader(io.StringIO(to_csv(table).decode())):
        for role in ("random", "michel", "untreated"):
            expected = over.get(row["method"], {}).get(role)
            assert row[f"over_{role}"] == (f"{expected.difference.mean:.6g}" if expected else "")
            assert row[f"over_{role}_p"] == (f"{expected.p:.6g}" if expected else "")
    roles = {label: tuple(over[label]) for label in ("obs-compensated", "dsp-joint")}
    assert roles == {"obs-compensated": ("random",), "dsp-joint": ("random", "michel", "untreated")}
    page = parse(main_table_as(read(folder), "html"))
    assert page.groups == [f"{kind}: {words}" for kind, words in KINDS.items()]
    assert [cells[0][1] for cells in page.tables[0][1:]] == LABELS
    text = latex(table).decode()
    places = [text.index(words) for words in KINDS.values()]
    assert places == sorted(places) and text.count(r"\midrule") == 3 and r"\multicolumn" in text


def test_another_order_stays_within_each_kind(board):
    table = main_table(board, standing(board, board.tasks))
    turned = replace(table, rows=table.rows[::-1], marks=table.marks[::-1], groups=table.groups[::-1])
    again = sorted_by(turned, "area")
    assert [row[0].shown for row in again.rows] == [label for of_kind in [*AREAS.values()][::-1] for label in of_kind]
    assert dict(zip(again.rows, again.groups, strict=True)) == dict(zip(table.rows, table.groups, strict=True))


def test_the_figure_of_areas_has_a_part_for_each_kind(board):
    found = standing(board, board.tasks)
    assert found is not None
    figure = rank_figures.areas(board, found)
    (axis,) = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*KINDS, "control"]
    assert [text.get_text() for text in axis.get_yticklabels()] == LABELS
    assert {*KINDS.values()} <= {text.get_text() for text in axis.texts}
    dotted = [line for line in axis.lines if line.get_linestyle() not in ("-", "None")]
    values = dict(zip(found.labels, found.area.value, strict=True))
    expected = [values[label] for label in LABELS if label.startswith("random")]
    assert sorted(line.get_xdata()[0] for line in dotted) == pytest.approx(sorted(expected))


def test_the_best_of_each_kind_stands_out_in_curves(board):
    best = standing_out(board)
    assert best == ["michel", "michel:recover=lstsq", "dsp-joint", "michel-retrained", "random"]  # a control above all
    own = {label: looks(board)[label] for label in best}
    assert len({look.colour for look in own.values()}) == len(best)
    assert len({look.dashes for look in own.values()}) == len(best) - 1  # one for each kind, and random removal


def test_the_first_words_name_the_best_of_each_kind_beside_its_control(board):
    found = standing(board, board.tasks)
    assert found is not None
    area = {label: f"{value:.3f}" for label, value in zip(found.labels, found.area.value, strict=True)}
    scores, recovered = lead(board, found)[-2:]
    for said, best, random in ((scores, "michel", "random"), (recovered, LABELS[2], LABELS[4])):
        assert f", {best} has the largest area, {area[best]} (" in said and f"; {random} has {area[random]}." in said


@pytest.mark.usefixtures("undrawn")
def test_a_method_page_names_its_controls(board, parse):
    files = method_page(board, "michel:recover=lstsq", None, {})
    text = parse(next(content for name, content in files.items() if name.endswith(".html")).decode()).text
    assert "kind recovered: weights recovered without training" in text
    assert "random control random:recover=lstsq" in text and "control of new weights michel " in text


def test_the_csv_of_all_seeds_says_the_kind(board):
    kinds = board.table.groupby("label")["kind"].unique().to_dict()
    assert {label: list(found) for label, found in kinds.items()} == {
        label: [kind] for kind, of_kind in AREAS.items() for label in of_kind
    }
    assert np.array_equal(board.table["trained"] > 0, board.table["kind"] == "trained")
