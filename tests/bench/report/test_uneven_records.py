"""Records that do not fit together everywhere: other metrics, units or seeds, nothing timed, a layer without heads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.records.storage.store import Store
from bench.report.area_orders import area_orders
from bench.report.board import Board, read
from bench.report.figures import gallery, lines
from bench.report.figures.curves import boxes
from bench.report.figures.heads.kept import heat_maps, layers_by_budget
from bench.report.figures.looks import looks
from bench.report.figures.quality_axis import QualityAxis
from bench.report.leaderboard import markdown, summary
from bench.report.standing import standing, words
from bench.report.tables.details import by_layer
from bench.report.tables.metrics import metric_tables
from bench.report.tables.overview import standings
from bench.report.write import main_table_as, report
from tests.bench.report.conftest import change

SORTS = "area", "area50"


@pytest.mark.usefixtures("undrawn")
def test_only_controls_may_be_timed(write):
    write("michel", 60, timed=False)
    folder = write("random", 40, control=True)
    assert report(folder, folder / "report").exists()
    page = next((folder / "report" / "budgets").glob("*.html")).read_text()
    assert '<p class="lead">1 method, controls apart;' in page


@pytest.mark.parametrize(
    "other", [range(4), range(1, 3), range(7, 9)], ids=["the same", "some of the same", "none of the same"]
)
def test_tasks_may_have_other_seeds_than_each_other(write, other):
    """As two runs into one folder leave them: each task counts alike, on the leaderboard as in a report."""
    for label, at_half in (("michel", 60), ("ae", 40)):
        for data, seeds in (("alpha", range(4)), ("beta", other)):
            for seed in seeds:
                folder = write(label, at_half, seed, data, noise=0.05)
    board = read(folder)
    found = standing(board, board.tasks)
    text = markdown(board)
    assert found.labels == ("michel", "ae") and "Not shown" not in text
    for place, label in enumerate(found.labels):
        areas = [[record_area(record) for record in board.of(task, label)] for task in board.tasks]
        mean, spread = np.mean([np.mean(each) for each in areas]), np.mean([np.std(each, ddof=1) for each in areas])
        if other == range(4):  # then there is a mean over tasks of each seed
            spread = np.std(np.mean(areas, axis=0), ddof=1)
        assert (found.area.value[place], found.spread[place]) == pytest.approx((mean, spread))
        (line,) = [line for line in text.partition("\n## class")[0].splitlines() if line.startswith(f"| {label} ")]
        assert f"| {mean:.3f} ±{spread:.3f} |" in line


def record_area(record) -> float:
    """Normalised area under the curve of a record, by trapezoids."""
    result = record.result
    quality = (np.mean(result.quality, axis=0) - result.chance) / (result.quality[0][0] - result.chance)
    return float(np.trapezoid(quality, np.array(result.removed) / result.units))


def test_a_layer_may_have_no_heads(write):
    board = read(write("michel", 60))
    (record,) = board.records.values()
    (axis,) = layers_by_budget([change(record, result={"shape": [8, 0]})], "layers").axes
    rows: dict[float, list[str]] = {}
    for text in axis.texts:
        rows.setdefault(text.get_position()[1], []).append(text.get_text())
    budgets = [label.get_text() for label in axis.get_xticklabels()]
    assert list(rows.values()) == [budgets, ["0"] * len(budgets)]


def test_modules_of_several_kinds_are_named_by_them(write):
    (record,) = read(write("michel", 60)).records.values()
    kinds = ["encoder", "encoder", "decoder", "cross", "decoder", "cross"]
    changed = change(record, result={"shape": [2, 1, 1, 2, 1, 1], "attention": kinds})
    names = ["encoder 0", "encoder 1", "decoder 0", "cross 0", "decoder 1", "cross 1"]
    for figure in (layers_by_budget([changed], "layers"), heat_maps({"michel": [changed]}, "heads", 0.5)):
        axis = next(each for each in figure.axes if each.get_yticklabels())
        assert [label.get_text() for label in axis.get_yticklabels()] == names
        figure.canvas.draw()
        assert all(label.get_window_extent().x0 >= figure.bbox.x0 for label in axis.get_yticklabels())


def test_the_table_of_layers_names_modules_of_several_kinds_too(write):
    board = read(write("michel", 60))
    ((path, record),) = board.records.items()
    kinds = ["encoder", "encoder", "decoder", "cross"]
    changed = change(record, result={"shape": [2, 2, 2, 2], "attention": kinds})
    rows = by_layer(Board(board.folder, {path: changed}), changed.task, [changed]).rows
    assert [row[0].shown for row in rows] == ["encoder 0", "encoder 1", "decoder 0", "cross 0"]


def test_seeds_that_were_measured_at_other_levels_are_not_drawn_with_the_first(make_record, board_of):
    """Even if they have as many."""
    first = [make_record("m", seed=seed, quality=((0.9, 0.7, 0.5),)) for seed in (0, 1)]
    other = make_record("m", seed=2, removed=(0, 2, 8), quality=((0.1, 0.1, 0.1),))
    board = board_of([*first, other])
    line = lines.of_method(board, first[0].task, "m", lines.by_heads)
    assert line.x.tolist() == [0, 0.5, 1] and line.y.tolist() == [0.9, 0.7, 0.5]
    figure = boxes([*first, other], line, looks(board)["m"], "title", "m", QualityAxis.of(other))
    assert "m (2 draws)" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_seeds_count_alike_in_the_quality_of_the_unpruned_model(make_record, board_of):
    """However many methods have them."""
    records = [make_record(label, quality=((0.9, 0.7, 0.5),)) for label in "abcde"]
    records += [make_record("a", seed=seed, quality=((0.6, 0.5, 0.5),)) for seed in (1, 2)]
    assert "Unpruned accuracy 70.0 %" in markdown(board_of(records))


def test_a_spread_is_promised_only_where_every_task_has_several_seeds(write):
    for label in ("michel", "ae"):
        for seed in range(3):
            write(label, 50 + 10 * seed + len(label), seed, "alpha")
        folder = write(label, 60 + len(label), 0, "beta")
    board = read(folder)
    found = standing(board, board.tasks)
    assert np.isnan(found.spread).all() and "standard deviation" not in " ".join(words(found))
    assert "with" not in gallery.areas(board, found).caption


def test_a_table_without_the_column_that_it_is_sorted_by_stays_as_it_is(make_record, board_of):
    board = board_of([make_record(label, chance=0.9, quality=((0.9, 0.9, 0.9),)) for label in "ab"])
    rows = [[line for line in main_table_as(board, "latex", sort).splitlines() if "&" in line] for sort in SORTS]
    assert rows[0] == rows[1] and len(rows[0]) == 3


@pytest.mark.slow
def test_seeds_may_have_models_of_other_sizes(write, make_record):
    folder = write("michel", 60)
    record = make_record("michel", "alpha", seed=1, removed=(0, 4, 12), result={"shape": [6, 6]})
    name = "classification.alpha.model/michel/seed1"
    Store(folder).write(name, record, {"outcomes": np.zeros((1, 3, 100), dtype=bool)})
    assert report(folder, folder / "report").exists()


def test_metrics_are_shown_that_all_records_have(make_record):
    def record(label, **metrics):
        return make_record(
            label, result={"metrics": [[{f"data/{name}": value for name, value in metrics.items()}] * 3]}
        )

    tables = metric_tables([record("a", acc=0.5), record("b", acc_norm=0.25, acc=0.75)])
    ((_, table),) = tables
    names, _, *rows = ([cell.shown for cell in row] for row in table)
    assert names == ["method", "data, acc"] and sorted(rows) == [["a", "50.0"], ["b", "75.0"]]
    assert metric_tables([record("a", acc=0.5), record("b", chrf=0.5)]) == []


def test_an_area_has_the_spread_of_the_seeds_that_it_is_of(write):
    """Most methods have seed 0 alone, by which all are ranked; one has three."""
    for label in ("ae", "tis", "flap"):
        write(label, 50)
    for seed in range(3):
        folder = write("michel", 60 + 10 * seed, seed)
    board = read(folder)
    found = standing(board, board.tasks)
    assert found is not None and list(found.seeds.values()) == [(0,)]
    area = {row[0].value: row[1] for row in standings(board, board.tasks, found, "t", "t").rows}["michel"]
    assert area.spread == "" and area.shown == f"{found.area.value[0]:.3f}" and math.isnan(found.spread[0])
    assert "in 1 seed; intervals need at least 5 seeds. " in " ".join(words(found))


def test_orders_of_methods_are_compared_only_where_they_have_all_tasks(write):
    for label, tasks in (("ae", ("x", "y")), ("tis", ("y", "z")), ("michel", ("x", "z"))):
        for place, task in enumerate(tasks):
            folder = write(label, 50 + 10 * place + len(label), data=task)
    assert area_orders(read(folder)) == ""


@pytest.mark.parametrize("copies", [1, 2])
def test_a_copied_folder_of_a_method_counts_once(write, copies, capsys):
    for seed in range(2):
        for data in ("alpha", "beta"):
            folder = write("michel", 60, seed, data)
    before = summary(folder)
    own = folder / "records" / "classification.alpha.model" / "michel"
    for number in range(copies):
        copy = own.with_name(f"michel.bak{number}")
        copy.mkdir()
        for file in own.iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
    assert summary(folder) == before
    said = capsys.readouterr().err
    assert said.count("left out, as ") == 2 * copies and f"{own / 'seed0.json'} is of the same cell: " in said
