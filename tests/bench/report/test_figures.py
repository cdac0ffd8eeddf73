"""What figures are drawn from, against slow and obvious counts; files that open."""

from __future__ import annotations

import csv
import io
import re
from functools import partial
from itertools import product
from types import SimpleNamespace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from bench.analysis.kept import kept_by_layer, kept_shares
from bench.report.board import Board, read
from bench.report.figures import gallery, lines
from bench.report.figures import ranks as rank_figures
from bench.report.figures.canvas import canvas, names_of, short, told_apart
from bench.report.figures.curves import BOXES, boxes
from bench.report.figures.heads.kept import BUDGETS, heat_maps, layers_by_budget, open_gates
from bench.report.figures.heads.layers import layers_by_kind
from bench.report.figures.looks import GREY, MARKERS, Look, looks, standing_out
from bench.report.figures.overview import _draw
from bench.report.figures.picture import PAPER, SERIES, STYLE, picture
from bench.report.figures.published import PaperCurve, paper_curves
from bench.report.figures.quality_axis import QualityAxis
from bench.report.figures.traces import Course, course, courses, kept_in_words
from bench.report.kept import kept
from bench.report.standing import standing
from bench.report.tables.table import Cell, Heading, Table, latex, name_cell, number_cell, to_csv


@given(data=st.data())
def test_the_share_of_seeds_and_draws_that_keep_a_unit(make_record, data):
    units = data.draw(st.integers(1, 9))
    removed = data.draw(st.integers(0, units))
    levels = sorted({0, removed, units})
    orders = st.lists(st.permutations(range(units)), min_size=1, max_size=3)
    records = []
    for own in data.draw(st.lists(orders, min_size=1, max_size=3)):
        if data.draw(st.booleans()):
            chosen = {"orders": own, "kept": None}
        else:
            own = own[:1]
            chosen = {"orders": None, "kept": [sorted(own[0][level:]) for level in levels]}
        quality = [[0.5] * len(levels)] * len(own)
        records.append(make_record(removed=levels, quality=quality, result={"units": units, **chosen}))
    expected = np.zeros(units)
    for unit, result in product(range(units), [record.result for record in records]):
        if result.orders:
            expected[unit] += np.mean([unit in order[removed:] for order in result.orders])
        else:
            expected[unit] += unit in result.kept[levels.index(removed)]
    got = kept_shares(records, removed)
    np.testing.assert_allclose(got, expected / len(records))
    assert kept_shares(records, units + 1) is None


def test_heads_by_layer_add_up_to_the_budget(run):
    board = read(run(seeds=2, labels=("michel", "voita"), data=("alpha",)))
    for label in board.labels:
        what, budgets, numbers = kept_by_layer(board.of(board.tasks[0], label))
        assert what == "heads kept in all" and budgets == ["8", "6", "4", "2", "0"] and numbers.shape == (2, 5)
        np.testing.assert_allclose(numbers.sum(0), list(map(int, budgets)))


def test_levels_that_count_neurons_are_named_by_the_share(make_record):
    result = {"shape": [4, 4], "orders": None, "kept": [list(range(8)), list(range(7)), [0, 4, 5], []]}
    record = make_record(removed=(0, 2, 4, 8), quality=[[0.9, 0.8, 0.7, 0.5]], neurons=True, result=result)
    what, levels, numbers = kept_by_layer([record])
    assert what == "share of heads and neurons removed" and levels == ["0 %", "25 %", "50 %", "100 %"]
    assert numbers.tolist() == [[4, 4, 1, 0], [4, 3, 2, 0]]


def test_gates_left_open_are_those_reported(run):
    board = read(run(seeds=3, labels=("michel", "voita"), data=("alpha",)))
    task = board.tasks[0]
    assert open_gates(board.of(task, "voita")) == {0.01: [6, 6, 6], 0.1: [2, 3, 2]}
    assert open_gates(board.of(task, "michel")) == {}


def test_the_course_of_a_training_is_a_mean_over_seeds_with_the_same_steps(run, changed):
    board = read(run(seeds=3, labels=("michel", "voita"), data=("alpha",)))
    task = board.tasks[0]
    records = board.of(task, "voita")
    found = course(records, 0.5)
    assert (found.steps.tolist(), found.loss.tolist()) == ([1, 3], [1.5, 0.5])
    assert (found.right.tolist(), found.open.tolist()) == ([0.5, 0.75], [8, 5])
    assert course(board.of(task, "michel"), 0.5) is None
    other = records[2].result.method_training.model_dump()
    other["traces"][4] |= {"steps": [1, 4], "right": []}
    odd = changed(records[2], result={"method_training": other})
    np.testing.assert_allclose(course([*records[:2], odd], 0.5).open, [8, 4.5])
    assert np.isnan(course([odd], 0.5).right).all()
    (drawn,) = gallery.traces(board, task, looks(board))
    assert (
        "accuracy on training batches" in drawn.caption and "that keep 4 of 8 units," in drawn.caption and drawn.files
    )


@pytest.mark.parametrize(("recorded", "nearest"), [((0, 1, 2, 7), 2), ((6, 8), 6), ((3, 5), 3), ((5, 4), 4), ((7,), 7)])
def test_a_training_is_drawn_at_the_recorded_level_nearest_to_half(run, changed, recorded, nearest):
    board = read(run(seeds=2, labels=("voita",), data=("alpha",)))
    records = []
    for record in board.of(board.tasks[0], "voita"):
        training = record.result.method_training.model_dump()
        (trace,) = training["traces"].values()
        training["traces"] = {count: trace | {"open": [8, count]} for count in recorded}
        records.append(changed(record, result={"method_training": training}))
    found = course(records, 0.5)
    assert found.kept == (8 - nearest, 8) and found.open.tolist() == [8, nearest]
    other = records[1].result.method_training.model_dump()
    del other["traces"][nearest]  # a seed that did not record that level is left out
    other["traces"][0] = trace | {"open": [1, 1]}
    one = changed(records[1], result={"method_training": other})
    assert course([records[0], one], 0.5).open.tolist() == [8, nearest]


def test_trainings_drawn_at_several_levels_are_told_apart(run, changed):
    board = read(run(seeds=1, labels=("voita",), data=("alpha",)))
    (record,) = board.of(board.tasks[0], "voita")
    training = record.result.method_training.model_dump()
    training["traces"] = {2: training["traces"][4]}
    half, quarter = course([record], 0.5), course([changed(record, result={"method_training": training})], 0.5)
    assert kept_in_words({"a": half, "b": half}) == "4 of 8"
    assert kept_in_words({"a": half, "b": quarter, "c": half}) == "4 of 8 (a, c) or 6 of 8 (b)"


def test_the_mean_over_tasks_is_that_within_each_seed(run):
    board = read(run(seeds=3, labels=("michel", "random")))
    line = next(line for line in lines.overall(board, lines.by_heads) if line.label == "michel")
    by_seed = []
    for seed in range(3):
        of_tasks = []
        for task in board.tasks:
            result = next(r for r in board.of(task, "michel") if r.cell.seed == seed).result
            quality = np.mean(result.quality, axis=0)
            of_tasks.append((quality - result.chance) / (quality[0] - result.chance))
        by_seed.append(np.mean(of_tasks, axis=0))
    np.testing.assert_allclose(line.y, np.mean(by_seed, axis=0))
    np.testing.assert_allclose(line.spread, np.std(by_seed, axis=0, ddof=1))
    np.testing.assert_allclose(line.x, [0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize("batch", [8, 32])
def test_latency_is_that_of_the_same_repeats_at_one_batch_size(run, changed, board_of, batch):
    records = []
    for record in read(run(seeds=1, labels=("michel", "none"), data=("alpha",))).records.values():
        latency = record.measured.latency.model_dump()
        latency["samples"][8] = {count: [1 - count / 10] * 3 for count in (0, 2, 4)}
        records.append(changed(record, measured={"latency": latency}))
    board = board_of(records)
    (line,) = lines.of_task(board, board.tasks[0], partial(lines.by_speed, batch=batch))  # the control removes nothing
    expected = {8: [1, 0.8, 0.6], 32: [(2.1 - count / 8) / 2.1 for count in (0, 2, 4, 6, 8)]}[batch]
    np.testing.assert_allclose(line.x, expected)


def test_latency_is_that_of_what_is_really_removed(run, changed, board_of):
    """Where a selector keeps more than its budget allows."""
    (record,) = read(run(seeds=1, labels=("michel",), data=("alpha",))).records.values()
    kept = [list(range(8 - count)) for count in (0, 2, 2, 6, 8)]
    board = board_of([changed(record, result={"kept": kept, "orders": None})])
    (line,) = lines.of_task(board, board.tasks[0], partial(lines.by_speed, batch=32))
    np.testing.assert_allclose(line.x, [(2.1 - count / 8) / 2.1 for count in (0, 2, 2, 6, 8)])


def test_a_task_has_curves_against_latency_at_two_batch_sizes(run, undrawn):
    board = read(run(seeds=1, labels=("michel", "random"), data=("alpha",)))
    drawn = list(gallery.task_curves(board, board.tasks[0], looks(board)))
    assert [each.title for each in drawn if "latency" in each.title] == [
        f"Quality against latency at batch {batch}, relative to the unpruned model" for batch in (32, 8)
    ]


def test_methods_that_stand_out_differ_in_more_than_colour(run):
    board = read(run(seeds=1))
    best, every = standing_out(board), looks(board)
    assert {*best} >= {"michel", "voita", "amp", "random"} and "none" not in every
    own = [every[label] for label in best]
    assert len({look.marker for look in own}) == len({look.colour for look in own}) == len(best)


def test_few_methods_all_stand_out_and_the_inverse_too(run, write):
    run(seeds=1, labels=("michel", "random"), data=("alpha",))
    board = read(write("inverse-ae", 20, control=True))
    assert set(standing_out(board)) == {"michel", "inverse-ae", "random"}


def test_the_best_of_those_that_remove_neurons_stands_out_beside_those_that_remove_heads(make_record, board_of):
    def records(number):
        return [
            make_record(
                f"{name}{place}", quality=((0.9, 0.8 - 0.05 * place, 0.25),), neurons=name != "h", control=name == "c"
            )
            for name in ("h", "n", "c")
            for place in range(number)
        ]

    assert standing_out(board_of(records(4))) == ["h0", "h1", "h2", "h3", "n0"]
    assert {*standing_out(board_of(records(2)))} == {"h0", "h1", "n0", "n1", "c0", "c1"}  # of few, all
    board = board_of([each for each in records(7) if not each.cell.label.startswith("h")])
    assert standing_out(board) == ["n0", "n1", "n2", "c0"]  # where none removes heads alone, as of heads


def test_of_methods_that_lack_a_task_the_best_stand_out_after_those_that_have_all(run, write):
    folder = run(seeds=1, labels=("random",))
    for place in range(8):
        write(f"michel:x={place}", 60 + place)
    for place in (1, 2):
        write(f"michel:x={place}", 60 + place, data="beta")
    assert standing_out(read(folder)) == [f"michel:x={place}" for place in (2, 1, 7, 6)] + ["random"]


def test_a_task_at_chance_in_some_seeds_does_not_count_for_what_stands_out(make_record, board_of):
    records = [
        make_record(label, data, quality=((0.9, 0.6 + 0.01 * place, 0.5),), seed=seed, chance=0.5 if seed else own)
        for place, label in enumerate("abcdefgh")
        for seed in (0, 1)
        for data, own in (("alpha", 0.5), ("beta", 0.95))
        if (label, data) != ("h", "beta")
    ]
    assert set(standing_out(board_of(records))) == set("efgh")


@pytest.fixture(scope="module")
def of_each_kind(make_record, board_of):
    """Four scores, four methods with recovery and four that train, on two tasks."""
    fields = ({}, {"cell": {"options": {"recover": "lstsq"}}}, {"trained": 0.1})
    return board_of(
        [make_record(f"m{place}", of_task, **fields[place % 3]) for place in range(12) for of_task in ("alpha", "beta")]
    )


def test_no_two_methods_look_alike_though_many_tasks_have_each_another_best(make_record, board_of):
    """Each of 26 methods is the best on a task of its own; three others are beside it on all."""
    others = {f"m{place}": 0.5 for place in range(26)} | {"a": 0.7, "b": 0.69, "c": 0.68}
    board = board_of(
        [
            make_record(label, f"t{place}", quality=((0.9, 0.85 if label == f"m{place}" else half, 0.25),))
            for place in range(26)
            for label, half in others.items()
        ]
    )
    found = looks(board)
    assert found.keys() == others.keys() and len({(look.colour, look.marker) for look in found.values()}) == 29
    for task in board.tasks:
        best = standing_out(board, task)
        assert best[0] == f"m{task.data[1:]}" and {"a", "b", "c"} <= {*best}


def test_a_control_above_all_stands_out_in_the_place_of_the_last_method(make_record, board_of):
    kinds = {"s": {}, "r": {"cell": {"options": {"recover": "lstsq"}}}, "t": {"trained": 0.1}}
    board = board_of(
        [
            make_record(f"{own}{place}", control=not place, quality=((0.9, 0.8 - 0.05 * place, 0.25),), **fields)
            for own, fields in kinds.items()
            for place in range(6)
        ]
    )
    assert standing_out(board) == ["s1", "s0", "r1", "r0", "t1", "t0"]


@pytest.mark.parametrize("seed", range(10))
def test_methods_look_alike_in_every_figure_and_unlike_each_other(of_each_kind, seed):
    """Whichever are the best on average, on one task, and among the methods that a figure has."""
    draw, labels = np.random.default_rng(seed), of_each_kind.labels
    board = Board(of_each_kind.folder, of_each_kind.records)
    board.__dict__["table"] = of_each_kind.table.assign(area=draw.random(len(of_each_kind.table)))  # as if cached
    own = looks(board)
    assert own.keys() == set(labels)
    assert len({(look.colour, look.marker) for look in own.values()}) == len(own)
    drawn = draw.choice(labels, 9, replace=False).tolist()
    overall, few = standing_out(board), standing_out(board, board.tasks[0], drawn)
    assert len({own[label].colour for label in overall}) == len(overall) >= 4 <= len(few) and {*few} <= {*drawn}


def test_in_a_figure_of_latency_the_best_of_those_timed_stand_out(run, write):
    folder = run(seeds=1, labels=("voita", "random"), data=("alpha",))
    for place in range(14):
        write(f"michel:x={place}", 60 + place, timed=place in (*range(5), 12))
    board = read(folder)
    (task,) = board.tasks
    own = looks(board)
    best, timed = ({f"michel:x={place}" for place in places} for places in ((10, 11, 12, 13), (2, 3, 4, 12)))
    assert {*standing_out(board, task)} == best | {"voita", "random"}
    drawn = {line.label for line in lines.of_task(board, task, partial(lines.by_speed, batch=8))}
    assert {*standing_out(board, task, drawn)} == timed | {"voita", "random"}
    pictures = {each.name.partition("-classification")[0]: each for each in gallery.task_curves(board, task, own)}
    for axis, expected in (("heads", best), ("latency", timed), ("latency-b8", timed)):
        assert set(re.findall(r">(michel:x=\d+)<", pictures[axis].inline)) == expected


def test_methods_that_begin_alike_have_an_entry_each_inside_the_figure():
    """As the rows of recovery in the suite of AMP do."""
    endings = ("choice=inverse", "choice=random", "parts=heads", "parts=neurons")
    names = [f"amp-recovered:batch_size=1,{ending}" for ending in endings]
    with mpl.rc_context(STYLE):
        figure = paper_curves([PaperCurve(name, name, False, (0, 1), (1, 0)) for name in names], "", "x", "y")
        FigureCanvasAgg(figure).draw()
        (box,) = figure.legends
        shown = [text.get_text() for text in box.get_texts()]
        assert len(set(shown)) == len(names) and all(text.endswith(e) for text, e in zip(shown, endings, strict=True))
        assert box.get_window_extent().x1 <= figure.bbox.x1 and box.get_window_extent().y0 >= 0


def test_names_that_are_cut_to_the_same_are_told_apart():
    rates = [f"dsp-joint:learning_rate={rate},start=pretrained" for rate in (0.1, 0.5)]
    found = names_of(["michel", *rates])
    assert list(found.values()) == ["michel", "dsp-joint:learning_rate=0.1", "dsp-joint:learning_rate=0.5"]
    assert set(names_of(rates, lambda name: "x").values()) == {"x (1)", "x (2)"}


@pytest.mark.parametrize("draw", ["overview", "maps", "layers"])
def test_a_small_run_of_long_names_has_its_legend_inside_the_figure(write, draw):
    for value in ("false", "true"):
        folder = write(f"michel:layer_norm={value},recompute=6", 80, data="financial phrases of a very long name, too")
    board = read(folder)
    (task,) = board.tasks
    with mpl.rc_context(STYLE):
        if draw == "overview":
            figure = _draw(board)
        elif draw == "maps":
            figure = heat_maps({label: board.of(task, label) for label in board.labels[:1]}, "Kept", 0.5)
        else:
            figure = layers_by_kind(kept(board, task), [4], "Heads kept", board.labels[0])
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
        texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
        texts += [text for axis in figure.axes for text in (*axis.texts, axis.title, axis._left_title)]
        for text in texts:
            box = text.get_window_extent(renderer)
            assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, text.get_text()


@pytest.mark.parametrize("label", ["a", "x" * 28, "amp-recovered:batch_size=1,parts=neurons"])
def test_a_short_name_has_the_ends_of_the_whole(label):
    assert len(short(label)) <= 28 and (short(label) == label or label.startswith(short(label).partition("…")[0]))
    assert label.endswith(short(label).rpartition("…")[2])


def test_of_very_many_levels_a_readable_number_is_drawn(make_record):
    units = 144
    removed = list(range(units + 1))
    quality = [list(np.linspace(0.9, 0.5, units + 1))] * 3
    orders = [list(range(units))] * 3
    shape = [12] * 12
    record = make_record(
        label="random", removed=removed, quality=quality, result={"units": units, "shape": shape, "orders": orders}
    )
    heads = layers_by_budget([record], "title").axes[0]
    assert [tick.get_text() for tick in heads.get_xticklabels()][:: BUDGETS - 1] == ["144", "0"]
    assert len(heads.texts) == BUDGETS * len(shape)
    line = lines.of_method(SimpleNamespace(of=lambda *_: [record]), None, "random", lines.by_heads)
    drawn = boxes([record], line, GREY, "title", "random", QualityAxis.of(record)).axes[0]
    assert len([patch for patch in drawn.patches if patch.get_facecolor()[3]]) == BOXES


def test_a_picture_opens_in_each_of_its_forms(monkeypatch, fonts):
    monkeypatch.setitem(STYLE, "pdf.fonttype", fonts)

    def draw() -> Figure:
        figure = Figure(figsize=(2, 1))
        figure.text(0.1, 0.5, "<b> & $x$ – 名")
        return figure

    made = picture("name", "title", "alt", draw, ("svg", "pdf", "png"))
    assert picture("name", "title", "alt", draw, ("svg", "pdf", "png")) == made
    words = "".join(ElementTree.fromstring(made.files["svg"]).itertext())
    assert "<b> & $x$ – 名" in words and "&lt;b&gt; &amp; $x$ – 名" in made.inline  # text, not outlines
    assert made.files["pdf"].startswith(b"%PDF-") and b"CreationDate" not in made.files["pdf"]
    assert b"/CIDFontType2" in made.files["pdf"] and b"/Type3" not in made.files["pdf"]  # as journals want them
    assert Image.open(io.BytesIO(made.files["png"])).size == (210, 105)
    assert "#" not in made.inline and 'width="192"' in made.inline


def test_a_bitmap_keeps_the_colours_of_thin_lines_beside_many_shades():
    def draw() -> Figure:
        figure = Figure(figsize=(4, 3))
        axis = figure.subplots()
        axis.imshow(np.linspace(0, 1, 400)[:, None], extent=(0, 1, 0, 1), aspect="auto", cmap="Blues")
        for height, colour in zip((0.1, 0.25, 0.4, 0.55, 0.7, 0.85), SERIES, strict=True):
            axis.plot([0.1, 0.9], [height] * 2, color=colour, linewidth=2)
        return figure

    content = io.BytesIO(picture("name", "title", "alt", draw, ("png",)).files["png"])
    shown = np.array(Image.open(content).convert("RGB")).reshape(-1, 3).astype(int)
    for colour in SERIES:
        wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
        assert abs(shown - wanted).max(1).min() <= 4, colour


@pytest.mark.parametrize("title", ["accuracy of a title of some length " * 3, "harness: TinyStories, tinyllamas", ""])
def test_what_stands_around_an_axis_is_inside_the_figure(title):
    with mpl.rc_context(STYLE):
        figure, axis = canvas(title, "share of parameters removed", "probability of a byte")
        axis.plot([0, 1], [0.034, 0.042])  # ticks of five signs
        axis.set_xlim(0, 1)
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
        low, high = axis.get_ylim()
        ticks = [text for text in axis.get_yticklabels() if low <= text.get_position()[1] <= high]
        assert len(ticks) > 3
        for text in (
            *ticks,
            *axis.get_xticklabels(),
            axis.xaxis.label,
            axis.yaxis.label,
            *axis.texts,
            axis._left_title,
        ):
            if text.get_text():
                box = text.get_window_extent(renderer)
                assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, text.get_text()


@pytest.mark.parametrize("seeds", [1, 2, 6])
def test_the_caption_of_areas_is_inside_the_figure_and_true(run, seeds):
    board = read(run(seeds=seeds, labels=("michel", "random")))
    found = standing(board, board.tasks)
    assert found is not None
    figure = rank_figures.areas(board, found)
    renderer = FigureCanvasAgg(figure).get_renderer()
    (caption,) = [text for text in figure.findobj(Text) if text.get_text().startswith("0 chance")]
    box = caption.get_window_extent(renderer)
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1
    for said in (caption.get_text(), gallery.areas(board, found).caption):
        assert ("standard deviation" in said) == (seeds == 2)
        assert ("95 % intervals" in said) == (seeds == 6)


SIGNS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=20)


NUMBERS = st.floats(-1e6, 1e6)


@given(SIGNS, NUMBERS, st.floats(0, 1e6), st.tuples(NUMBERS, NUMBERS))
def test_csv_gives_back_names_and_numbers_and_what_is_shown_beside_them(label, value, sd, ends):
    headings = (Heading("method", "m"), Heading("v", "v"), Heading("w", "w"))
    cells = (
        name_cell(label),
        number_cell(value, 2, sd=sd, factor=100),
        number_cell(value, 2, sd=sd, ends=ends, factor=100),
    )
    table = Table("t", "caption", headings, (cells,))
    head, row = csv.reader(io.StringIO(to_csv(table).decode(), newline=""))
    assert head == ["m", "v", "v_sd", "w", "w_low", "w_high"]
    assert row[0] == label
    assert list(map(float, row[1:])) == pytest.approx([value, sd, value, *ends], rel=1e-5, abs=1e-9)
    assert cells[1].spread == f" ±{100 * sd:.2f}" and cells[2].spread.startswith(" [")


def test_latex_escapes_what_it_would_read():
    table = Table("a/b", "50 %", (Heading("m_1", "m"),), ((Cell("a_b & 5 % $x$ #1 {y} ~ ^ \\ ±", "x"),),))
    text = latex(table).decode()
    assert r"\caption{50 \%}" in text and r"\label{tab:a-b}" in text and r"m\_1 \\" in text
    assert r"a\_b \& 5 \% \$x\$ \#1 \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{} $\pm$ \\" in text


def test_a_missing_number_is_a_dash_and_an_empty_field():
    table = Table("t", "c", (Heading("m", "m"), Heading("v", "v")), ((name_cell("x"), number_cell(float("nan"), 2)),))
    assert to_csv(table).decode() == "m,v\nx,\n" and b"--" in latex(table)


def test_a_whole_number_keeps_all_its_digits():
    table = Table("t", "c", (Heading("m", "m"), Heading("v", "v")), ((name_cell("x"), number_cell(355361794.0, 0)),))
    assert to_csv(table).decode() == "m,v\nx,355361794\n"


def test_the_main_figure_parts_trained_methods_from_others_and_controls_from_methods(run):
    board = read(run())
    found = standing(board, board.tasks)
    assert found is not None
    figure = rank_figures.areas(board, found)
    (axis,) = figure.axes
    names = [text.get_text() for text in axis.get_yticklabels()]
    assert names == [*(short(each, rank_figures.LONGEST) for each in found.labels if each != "voita"), "voita"]
    heights = dict(zip(names, axis.get_yticks(), strict=True))
    points = {
        tuple(line.get_xydata()[0]): line.get_markerfacecolor()
        for line in axis.lines
        if line.get_marker() in ("o", "s")
    }
    for place, label in enumerate(found.labels):
        face = points[found.area.value[place], heights[short(label, rank_figures.LONGEST)]]
        assert (face == PAPER) == (label == "random")  # a control is hollow
    ends = [line.get_xdata() for line in axis.lines if line.get_marker() in ("", "None")]
    assert found.area.low is not None and found.area.high is not None
    for place in range(len(found.labels)):
        assert [found.area.low[place], found.area.high[place]] in [list(pair) for pair in ends]
    words = [text.get_text() for text in axis.texts]
    assert {"gates or weights trained at each level", "weights left as they are"} <= set(words)
    assert "0 chance, 1 unpruned; mean over 2 tasks; bars: 95 % intervals over 6 seeds" in words


def test_names_of_trainings_keep_what_differs_and_stand_within_the_figure():
    paper = "dsp-joint:schedule=paper,start=pretrained"
    constant = "dsp-joint:end_temperature=1.0,schedule=paper,start=pretrained,start_temperature=1.0"
    found = dict.fromkeys((paper, constant, "ste:start=pretrained"), Course((4, 8), *(np.arange(1.0, 7),) * 4))
    figure = courses(found, dict.fromkeys(found, Look(SERIES[0], "o")), "trainings")
    figure.canvas.draw()
    (legend_,) = figure.legends
    names = [text.get_text() for text in legend_.get_texts()]
    assert names == ["dsp-joint", "dsp-joint:end_temperature=1.0,start_temperature=1.0", "ste"]
    right = max(text.get_window_extent().x1 for text in legend_.get_texts())
    assert right < figure.bbox.width
    assert all(line.get_markevery()[0] < 6 for line in figure.axes[0].lines)  # even of many each has a marker


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sets(st.sampled_from("wxyz"))), max_size=6))
def test_names_that_tell_apart_are_different_and_have_what_not_all_of_a_method_share(methods):
    labels = [f"{method}:{','.join(sorted(own))}" if own else method for method, own in methods]
    names = told_apart(list(dict.fromkeys(labels)))
    assert len(set(names.values())) == len(names)
    for (method, own), label in zip(methods, labels, strict=True):
        shared = set.intersection(*(others for other, others in methods if other == method))
        expected = sorted(own - shared)
        assert names[label] == (f"{method}:{','.join(expected)}" if expected else method)


def test_lines_of_trainings_and_of_papers_differ_in_more_than_colour():
    steps = np.arange(1.0, 41)
    found = {f"m{number}": Course((4, 8), steps, steps, steps / 40, steps) for number in range(8)}
    own = {label: Look(SERIES[n % 6], MARKERS[(n + n // 6) % 6]) for n, label in enumerate(found)}
    for axis in courses(found, own, "trainings").axes:
        styles = [(line.get_linestyle(), line.get_marker()) for line in axis.lines]
        assert len(styles) == 8 and len(set(styles[:4])) == 4
        assert len(set(styles)) == 8
        assert len({line.get_linestyle() for line in axis.lines if line.get_color() in (SERIES[0], SERIES[4])}) == 3
    curves = [
        PaperCurve(name, group, name == "theirs", (0, 1), (1, 0)) for group in "ab" for name in ("theirs", "x", "y")
    ]
    lines_ = paper_curves(curves, "", "x", "y").axes[0].lines
    styles = [(line.get_linestyle(), line.get_marker(), line.get_markerfacecolor() == PAPER) for line in lines_]
    assert len(set(styles)) == len(curves)
