"""What is said of methods and tasks that have other seeds than others, or are at chance, in figures and of budgets."""

from __future__ import annotations

import numpy as np
import pytest

from bench.report.board import read
from bench.report.figures import gallery, lines, ranks
from bench.report.figures.looks import looks
from bench.report.left_out import curves_left_out
from bench.report.pages.budgets import budget_pages
from bench.report.pages.index import index
from bench.report.scopes import scopes
from bench.report.standing import standing
from bench.report.tables import overview

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def more(write):
    """Three methods with two seeds on each of two tasks, and more seeds of one of them on one task."""
    for data in ("alpha", "beta"):
        for seed in range(2):
            write("michel", 60 + 10 * seed, seed, data)
            write("ae", 50, seed, data)
            write("tis", 55, seed, data)
    for seed in (2, 3, 4):
        folder = write("michel", 95, seed, "beta")
    return folder


def test_areas_of_budgets_are_of_the_seeds_of_all_else_there(more):
    board = read(more)
    for scope in scopes(board):
        table = board.table[(board.table["label"] == "michel") & (board.table["seed"] < 2)]
        names = [task.data for task in scope.trade_offs.tasks]
        assert list(scope.trade_offs.seeds.values()) == [(0, 1)] * len(names)
        assert scope.areas["michel"] == pytest.approx(table[table["data"].isin(names)]["area"].mean())
    assert len(scopes(board)) == 3


def test_a_row_is_of_the_seeds_of_its_area_and_the_rest_is_named(more):
    board = read(more)
    found = standing(board, board.tasks)
    table = overview.standings(board, board.tasks, found, "overall", "Mean over 2 tasks")
    place = [heading.key for heading in table.headings].index("area50")
    (row,) = [row for row in table.rows if row[0].value == "michel"]
    own = board.table[(board.table["label"] == "michel") & (board.table["seed"] < 2)]
    assert row[1].value == pytest.approx(own["area"].mean()) and row[place].value == pytest.approx(own["area50"].mean())
    assert table.caption == "Mean over 2 tasks; without seeds that most methods lack: michel (seeds 2, 3, 4)"


def test_a_row_is_compared_with_its_control_in_the_seeds_of_its_area(more, write):
    for data in ("alpha", "beta"):
        for seed in range(2):
            write("random", 40, seed, data, control=True)
            write("gnorm", 45, seed, data)
    for seed in (2, 3, 4):
        folder = write("random", 90, seed, "beta", control=True)
    board = read(folder)
    found = standing(board, board.tasks)
    table = overview.standings(board, board.tasks, found, "overall", "")
    (row,) = [row for row in table.rows if row[0].value == "michel"]
    areas = {
        label: board.table[(board.table["label"] == label) & (board.table["seed"] < 2)]
        for label in ("michel", "random")
    }
    more_area = areas["michel"]["area"].mean() - areas["random"]["area"].mean()
    (over,) = [cell for cell, heading in zip(row, table.headings, strict=True) if heading.key == "over_random"]
    assert over.value == pytest.approx(65 * more_area)  # points of quality between chance and the unpruned model
    assert board.over_controls(board.tasks)["michel"]["random"].difference.mean < over.value - 1


def test_times_that_not_all_tasks_have_are_left_out_and_said_so(write):
    for data in ("alpha", "beta"):
        write("michel", 60, data=data, timed=data == "alpha")
        folder = write("ae", 50, data=data, timed=data == "alpha")
    board = read(folder)
    for tasks, timed in ((board.tasks, False), (board.tasks[:1], True)):
        table = overview.standings(board, tasks, standing(board, tasks), "t", "t")
        assert any(heading.key.startswith("speedup") for heading in table.headings) == timed
        assert ("speed was not measured on all tasks" in table.caption) != timed


def test_where_no_method_has_all_tasks_nothing_is_said_of_speed(write):
    write("michel", 60, data="alpha")
    board = read(write("ae", 60, data="beta"))
    table = overview.standings(board, board.tasks, None, "t", "t")
    assert table.caption == "t" and any(heading.key.startswith("speedup") for heading in table.headings)
    board = read(write("ae", 60, data="beta", timed=False))
    assert overview.standings(board, board.tasks[1:], None, "t", "t").caption == "t"


def test_means_are_not_drawn_over_other_levels(write, changed, board_of):
    for data in ("alpha", "beta"):
        for seed in range(2):
            write("michel", 60, seed, data)
            folder = write("ae", 50, seed, data)
    records = [
        changed(record, result={"removed": [0, 1, 2, 3, 8]})
        if record.task.data == "beta" and (record.cell.label == "ae" or record.cell.seed)
        else record
        for record in read(folder).records.values()
    ]
    board = board_of(records)
    (line,) = lines.overall(board, lines.by_heads)
    assert line.label == "michel" and line.x.tolist() == [0, 0.25, 0.5, 0.75, 1] and np.isnan(line.spread).all()
    assert curves_left_out(board, [line.label]).endswith("at the same levels: ae.")


def test_costs_in_a_figure_are_of_the_seeds_of_its_areas(more, changed, board_of):
    records = [
        changed(record, result={"passes": {"forward": 1000 if record.cell.seed < 2 else 10**6, "backward": 0}})
        for record in read(more).records.values()
    ]
    board = board_of(records)
    assert ranks._passes(board, standing(board, board.tasks), "michel") == 1000


def test_a_task_at_chance_is_in_no_cost_of_a_figure_and_its_caption_speaks_of_the_other(more, changed, board_of):
    records = [
        changed(record, result={"chance": 0.95}) if record.task.data == "beta" else record
        for record in read(more).records.values()
    ]
    board = board_of(records)
    assert [task.data for task in board.averaged] == ["alpha"]
    captions = [drawn.caption for drawn in gallery.overall_curves(board, looks(board))]
    only = board.name(board.averaged[0])
    assert captions and all(f": {only}, with bands" in caption for caption in captions)
    assert np.isfinite(ranks._passes(board, standing(board, board.tasks), "michel"))


def test_a_name_of_a_task_keeps_its_capital(write):
    board = read(write("michel", 60, data="SST"))
    captions = [drawn.caption for drawn in gallery.overall_curves(board, looks(board))]
    assert captions and all(f": {board.name(board.tasks[0])}." in caption for caption in captions)


def test_a_band_is_promised_only_where_one_is_drawn(write):
    write("random", 40, 0, "alpha", control=True)
    write("michel", 60, 0, "alpha")
    for seed in range(3):
        write("random", 40, seed, "beta", control=True)
        folder = write("michel", 60, seed, "beta", noise=0.02)
    board = read(folder)
    own = looks(board)
    for task, several in zip(board.tasks, (False, True), strict=True):
        (drawn,) = gallery.boxes(board, task, "michel", own["michel"])
        assert ("with a band" in drawn.caption) == several
        assert all(("with bands" in each.caption) == several for each in gallery.task_curves(board, task, own))


def test_as_many_other_seeds_are_told_by_their_number(write):
    for data, seeds in (("alpha", range(3)), ("beta", range(3, 6))):
        for seed in seeds:
            write("michel", 60, seed, data)
            folder = write("ae", 50, seed, data)
    page = budget_pages(read(folder))["budgets/mean.html"].decode()
    assert "3 seeds per task" in page and "3 to 3" not in page


def test_a_method_without_a_curve_of_means_is_named(write):
    for data, seeds in (("alpha", (0, 1)), ("beta", (1, 2))):
        for seed in seeds:
            write("michel", 60, seed, data)
    write("ae", 50, 0, "alpha")
    write("tis", 50, 0, "alpha")
    board = read(write("tis", 50, 1, "beta"))
    drawn = {line.label for line in lines.overall(board, lines.by_parameters)}
    assert drawn == {"michel"}  # ae has one of the tasks, which is said elsewhere
    assert curves_left_out(board, drawn).endswith(": tis.")
    assert not curves_left_out(board, {*drawn, "tis"})
    page = index(board, standing(board, board.tasks), looks(board))["index.html"].decode()
    assert curves_left_out(board, drawn) in page


def test_dotted_lines_are_spoken_of_only_where_there_are_some(write):
    write("michel", 60)
    boards = read(write("ae", 50)), read(write("random", 40, control=True))
    captions = [gallery.areas(board, standing(board, board.tasks)).caption for board in boards]
    assert ["dotted" in caption for caption in captions] == [False, True]


def test_seeds_are_those_of_the_methods_that_have_all_tasks(write):
    for data in ("alpha", "beta"):
        for label in ("michel", "ae"):
            for seed in range(3):
                write(label, 60 + seed + len(label), seed, data)
    for label in ("tis", "hies", "attr"):
        folder = write(label, 50, 0, "beta")
    board = read(folder)
    both = dict.fromkeys(board.tasks, (0, 1, 2))
    assert standing(board, board.tasks).seeds == scopes(board)[0].trade_offs.seeds == both


def test_a_method_with_other_seeds_has_a_result_on_the_task(write):
    for data in ("alpha", "beta"):
        for label in ("michel", "ae"):
            write(label, 60, 0, data)
        write("tis", 50, 1, data)
    folder = write("hies", 50, 0)
    board = read(folder)
    alpha, beta = map(board.name, board.tasks)
    expected = {"tis": f"no result for seed 0 on {alpha}, {beta}", "hies": f"no result on {beta}"}
    assert standing(board, board.tasks).unranked == scopes(board)[0].trade_offs.left_out == expected


def test_a_method_under_other_settings_is_neither_ranked_nor_within_a_budget(write):
    for label in ("michel", "ae"):
        write(label, 60)
    board = read(write("tis", 50, cell={"calibration": 64}))
    expected = {"tis": "calibration examples 64 instead of 128"}
    assert standing(board, board.tasks).unranked == scopes(board)[0].trade_offs.left_out == expected
