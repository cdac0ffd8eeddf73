"""What a leaderboard shows, hides and names; the same records give the same bytes."""

from __future__ import annotations

import random
import re
import shutil
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from bench.__main__ import main
from bench.records.errors import InputError
from bench.records.storage.store import Store
from bench.report.board import read
from bench.report.figures.overview import overview
from bench.report.leaderboard import markdown, summary, to_csv, write
from bench.report.tables.columns import COLUMNS
from bench.report.tables.overview import standings
from tests.fixtures.slow import slow_cases

OUTCOMES = {"outcomes": np.zeros((1, 3, 100), dtype=bool)}


@pytest.fixture
def board(board_of):
    """The leaderboard of records."""
    return lambda records: markdown(board_of(records))


@pytest.fixture
def tables(board):
    """Its tables, without the legend, which mentions ±."""
    return lambda records: "\n".join(line for line in board(records).splitlines() if line.startswith("|"))


def row(text: str, label: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {label} "))
    return [part.strip() for part in line.strip("|").split("|")][1:]


def column(name: str) -> int:
    return list(COLUMNS).index(name)


def test_means_and_spreads_over_seeds(make_record, board):
    records = [make_record(seed=seed, quality=[[0.9, at, 0.5]]) for seed, at in enumerate((0.6, 0.7, 0.8))]
    assert row(board(records), "m")[column("at50")] == "70.0 ±10.0"


def test_one_seed_shows_no_spread(make_record, tables):
    assert "±" not in tables([make_record()]) and "±0.0" in tables([make_record(), make_record(seed=1)])


def test_methods_are_in_order_of_area(make_record, board):
    records = [make_record(label=label, quality=[[0.9, at, 0.5]]) for label, at in (("low", 0.6), ("high", 0.8))]
    text = board(records)
    assert text.index("| high ") < text.index("| low ")


def test_methods_can_be_in_order_of_the_area_to_half(make_record, board_of):
    """One keeps more until half is removed, the other after that."""
    shapes = {"early": (0.9, 0.8, 0.5), "late": (0.9, 0.7, 0.8), "last": (0.9, 0.6, 0.5)}
    drawn = board_of([make_record(label=label, quality=[shape]) for label, shape in shapes.items()])
    by_area, to_half = markdown(drawn), markdown(drawn, "area50")
    assert by_area.index("| late ") < by_area.index("| early ") and to_half.index("| early ") < to_half.index("| late ")
    assert "0.875" in row(by_area, "early")  # (0.9 + 0.8) / 2, from chance, 0.5, to 0.9
    # Of three pairs of methods the two orders differ in one.
    assert "Kendall's tau between the orders of the 3 methods that remove heads" in by_area
    assert "by area and by area to 50 %: 0.33." in by_area


def test_where_all_methods_tie_orders_have_no_correlation(make_record, board_of):
    drawn = board_of([make_record(label=label, quality=[(0.9, 0.7, 0.5)]) for label in ("one", "two", "three")])
    text = markdown(drawn)
    assert "by area and by area to 50 %: undefined, as all tie in one of them." in text and "nan" not in text


def test_the_order_of_a_table_is_asked_for_by_its_column(make_record, tmp_path, capsys):
    for label, shape in (("early", (0.9, 0.8, 0.5)), ("late", (0.9, 0.7, 0.8))):
        Store(tmp_path).write(f"t/{label}/seed0", make_record(label=label, quality=[shape]), OUTCOMES)
    written = []
    for sort, first in (("area", "late"), ("area50", "early")):
        for form in ("md", "html", "latex"):
            assert main(["leaderboard", str(tmp_path), "--sort", sort, "--format", form]) == 0
            text = capsys.readouterr().out
            places = [text.rindex(label) for label in ("early", "late")]
            assert (places[0] < places[1]) == (first == "early"), (sort, form)
        written.append((tmp_path / "leaderboard.md").read_bytes())
    assert written[0] == written[1]  # the file does not depend on what was printed
    assert main(["leaderboard", str(tmp_path), "--sort", "area50", "--format", "csv"]) == 2
    assert "--sort: csv has a line for each seed" in capsys.readouterr().err


def test_a_number_that_some_seed_lacks_is_not_shown(make_record, board):
    other = make_record(seed=1, removed=[0, 2, 8])
    got = row(board([make_record(), other]), "m")
    assert got[column("at50")] == "–" and got[column("area")] != "–"


def test_accuracy_is_shown_at_the_levels_nearest_to_the_usual_ones(make_record, board_of):
    levels = {"removed": [0, 3, 7, 8], "quality": [[0.9, 0.8, 0.6, 0.5]]}
    drawn = board_of([make_record(label=label, seed=seed, **levels) for label in ("a", "b") for seed in range(2)])
    text = markdown(drawn)
    assert "| acc. at 38 % | acc. at 88 % |" in " ".join(text.split())
    assert row(text, "a")[:2] == ["80.0 ±0.0", "60.0 ±0.0"]
    assert ",at38,at88,area," in to_csv(drawn)
    table = standings(drawn, drawn.tasks, None, "t", "t")
    assert [heading.shown for heading in table.headings if heading.key.startswith("at")] == ["at 38 %", "at 88 %"]


def test_a_method_that_lacks_a_task_is_named_and_not_ranked(make_record, board):
    records = [make_record(data=data, label="whole") for data in ("first", "second")]
    records += [
        make_record(data="second", label=label, seed=seed, quality=[[0.9, 0.9, 0.9]])
        for label, seed in (("part", 0), ("some", 0), ("some", 2), ("other", 2), ("other", 0))
    ]
    overall = board(records).split("## classification")[0]
    assert "| whole " in overall and "| part " not in overall
    assert "Not shown, as some task is missing: other, some (seeds 0, 2); part (seed 0)." in overall
    assert row(board(records).split("## classification: second")[1], "part")


def test_a_table_without_any_complete_method_is_still_made(make_record, board):
    records = [make_record(data="first", label="a"), make_record(data="second", label="b")]
    assert "a, b (seed 0)" in board(records)


def test_failures_and_trainings_short_of_their_target_are_named(make_record, failed, board_of, board):
    broken = failed(make_record(label="broken"), "RuntimeError: no")
    training = {"target_met": False, "validation_accuracy": 0.5, "target": 0.9}
    text = board([make_record(training=training), broken])
    assert "- failed: broken, data, model, seed 0: RuntimeError: no" in text
    assert "short of its target (0.500 of 0.900 on validation)" in text
    alone = board([broken])
    assert "RuntimeError: no" in alone and to_csv(board_of([broken])) == ""


def test_rows_that_remove_neurons_are_marked(make_record, changed, board):
    names = ("ae", "amp", "amp-mlp", "amp-recovered")
    records = [make_record(label=label, neurons=label != "ae") for label in names]
    records[2] = changed(records[2], result={"orders": None, "kept": [[*range(8)]] * 3})
    joint = {"orders": None, "kept": [[*range(8)], [*range(4)], []]}  # a joint method has no order
    records[3] = changed(records[3], result=joint)
    text = board(records)
    assert "| amp (heads and neurons)" in text and "| amp-mlp (neurons)" in text and "| ae  " in text
    assert "| amp-recovered (heads and neurons)" in text


def test_rows_that_remove_neurons_come_last(make_record, board):
    records = [make_record(label="ae"), make_record(label="amp", neurons=True, quality=((0.9, 0.9, 0.9),))]
    lines = board(records).splitlines()
    assert [line.split("|")[1].split()[0] for line in lines if line.startswith("| a")][:2] == ["ae", "amp"]


def test_the_share_of_training_is_on_the_row_and_mixed_ones_are_named(make_record, board):
    records = [make_record(label="dsp-joint", trained=0.1), make_record(label="dsp-joint", seed=1, trained=0.1)]
    assert "| dsp-joint (trained 10 %)" in board(records) and "several settings" not in board(records)
    mixed = board([*records, make_record(label="dsp-joint", seed=2, trained=0.5)])
    assert "records of several settings: " in mixed and "10 %" in mixed and "50 %" in mixed
    assert "several settings" not in board([*records, make_record(label="ae")])


def test_a_method_trained_for_another_share_on_each_task_is_in_the_means(make_record, board):
    shares = {"first": 0.1, "second": 0.2}
    records = [
        make_record(label="dsp-joint", data=data, seed=seed, trained=share)
        for data, share in shares.items()
        for seed in range(2)
    ]
    overall, first, second = board(records).split("\n## ")[1:4]
    assert "| dsp-joint (trained 10 to 20 %) |" in overall and "Not shown" not in overall
    assert "| dsp-joint (trained 10 %) |" in first and "| dsp-joint (trained 20 %) |" in second


def test_records_of_another_protocol_are_left_out(make_record, changed, failed, tmp_path):
    old = changed(make_record(), cell={"protocol": 1})
    Store(tmp_path).write("t/none/seed0", failed(old, "no"))
    with pytest.raises(InputError, match="another protocol"):
        markdown(read(tmp_path))
    Store(tmp_path).write("t/none/seed1", failed(make_record(seed=1), "no"))
    assert "- left out: 1 record made under another protocol" in markdown(read(tmp_path))


def test_records_measured_under_different_settings_are_named(make_record, board):
    same = board([make_record(seed=0), make_record(seed=1)])
    assert "several settings" not in same
    mixed = board(
        [
            make_record(seed=0),
            make_record(seed=1, limit=100),
            make_record(seed=2, removed=(0, 8), quality=((0.9, 0.5),)),
        ]
    )
    assert "records of several settings: " in mixed
    assert "limit 100 (1)" in mixed and "units removed 0, 8 of 8 (1)" in mixed
    assert "dtype bfloat16 (1)" in board([make_record(seed=0), make_record(seed=1, dtype="bfloat16")])


def test_a_remark_on_mixed_settings_stands_under_the_table_of_a_run(make_record, tmp_path):
    Store(tmp_path).write("t/m/seed0", make_record(), OUTCOMES)
    assert "several settings" not in summary(tmp_path)
    Store(tmp_path).write("t/m/seed1", make_record(seed=1, limit=100), OUTCOMES)
    assert summary(tmp_path).splitlines()[-1].startswith("- classification, data, model: records of several settings: ")


@pytest.mark.parametrize("form", ["html", "latex", "md"])
def test_methods_that_lack_a_task_are_named_beside_every_form(make_record, tmp_path, capsys, form):
    for data, labels in (("data", ("m", "n", "o")), ("other", ("m", "n"))):
        for label in labels:
            record = make_record(label=label, cell={"data": data})
            Store(tmp_path).write(f"t-{data}/{label}/seed0", record, OUTCOMES)
    assert main(["leaderboard", str(tmp_path), "--format", form]) == 0
    told = capsys.readouterr()
    assert "Not shown, as some task is missing: o (seed 0)." in (told.out if form == "md" else told.err)
    assert bool(told.err) == (form != "md")


@pytest.mark.parametrize("flags", [["--format", "html"], *slow_cases(["--format", "latex"], ["--by", "schedule"])])
def test_a_remark_on_mixed_settings_stands_beside_a_table_without_notes(make_record, tmp_path, capsys, flags):
    scheduled = {"label": "m", "cell": {"options": {"allocation": "global"}}}
    Store(tmp_path).write("t/m/seed0", make_record(**scheduled), OUTCOMES)
    assert main(["leaderboard", str(tmp_path), *flags]) == 0
    assert capsys.readouterr().err == ""
    Store(tmp_path).write("t/m/seed1", make_record(seed=1, limit=100, **scheduled), OUTCOMES)
    assert main(["leaderboard", str(tmp_path), *flags]) == 0
    told = capsys.readouterr()
    assert told.err.startswith("headbench: classification, data, model: records of several settings: ")
    assert told.err.count("\n") == 1 and "several settings" not in told.out


def test_methods_with_fewer_seeds_than_others_are_named(make_record, board):
    records = [make_record(label=label, seed=seed) for label in ("ae", "michel") for seed in range(3)]
    assert "of 3 seeds" not in board(records)
    text = board([*records, make_record(label="random", seed=1), make_record(label="b", seed=1)])
    assert "- classification, data, model: of 3 seeds, b, random: only seed 1\n" in text + "\n"


def test_records_of_several_origins_are_named(make_record, changed, board):
    origin = {"processor": "B", "commit": "b" * 40, "packages": {"torch": "2"}}
    other = changed(make_record(seed=1), provenance=origin)
    text = board([make_record(), other])
    assert "records of several processors: A (1), B (1)" in text and "several torch versions" in text


@pytest.mark.parametrize(
    "label", ["a|b", "<b>x</b>", "$x$y", "line\nbreak", *slow_cases("`x`", "a*b*", "[x](y)", "naïve—名")]
)
def test_odd_names_stay_in_their_cell(make_record, board_of, board, label):
    records = [make_record(label=label, data=label, model=label), make_record(label="m", data=label, model=label)]
    text = board(records)
    bars = [len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")]
    assert len(bars) == 8 and set(bars) == {16}  # two tables: heading, rule and two methods, fourteen figures each
    unescaped = re.sub(r"\\.", "", text.split("How to read it")[0].replace("![", "", 1))
    assert not re.search(r"[<>`*$]", unescaped) and "[x]" not in unescaped
    drawn = ElementTree.fromstring(overview(board_of(records)))
    words = " ".join("".join(drawn.itertext()).split())
    assert " ".join(label.split()) in words
    assert board_of(records).table["label"].tolist() == [label, "m"]


@pytest.mark.slow
def test_the_same_records_give_the_same_bytes_in_any_order(make_record, board_of):
    records = [
        make_record(data=data, label=label, seed=seed, control=label == "c", quality=[[0.9, 0.6 + seed / 70, 0.5]])
        for data in ("first", "second")
        for label in ("a", "b", "c")
        for seed in (0, 2, 10)
    ]
    drawn = board_of(records)
    expected = markdown(drawn), to_csv(drawn), overview(drawn)
    for seed in range(3):
        random.Random(seed).shuffle(records)
        drawn = board_of(records)
        assert (markdown(drawn), to_csv(drawn), overview(drawn)) == expected


def test_a_folder_without_results_becomes_two_files(make_record, failed, tmp_path):
    for seed in (0, 1):
        Store(tmp_path).write(f"t/none/seed{seed}", failed(make_record(seed=seed), "no"))
    assert summary(tmp_path) == "no cell has a result yet"
    assert [path.name for path in write(tmp_path)] == ["leaderboard.md", "leaderboard.csv"]
    assert markdown(read(tmp_path)) == (tmp_path / "leaderboard.md").read_text()


def test_speed_is_a_dash_where_a_method_was_not_timed_and_no_column_where_none_was(make_record, changed, board):
    untimed = changed(make_record(label="a"), measured={"latency": None})
    text = board([untimed, make_record(label="b")])
    assert row(text, "a")[column("speedup1")] == "–" and row(text, "b")[column("speedup1")] == "2.00"
    assert "| speed-up" not in board([untimed])


def test_no_mean_is_taken_over_seconds_of_choosing_on_two_processors(make_record, changed, board):
    alike = [changed(make_record(seed=seed), measured={"scoring_seconds": 1.5}) for seed in (0, 1)]
    apart = [alike[0], changed(alike[1], provenance={"processor": "B"})]
    for records, several in ((alike, False), (apart, True)):
        text = board(records)
        headings = [line for line in text.splitlines() if line.startswith("| method")]
        assert headings and all(("scoring (s)" in line) is not several for line in headings)
        assert all("forward" in line for line in headings)  # passes are the same anywhere
        assert (
            "records of several processors: A (1), B (1); tables leave out the seconds of choosing" in text
        ) is several


def test_no_mean_is_taken_over_times_of_two_machines(make_record, changed, board, board_of, tmp_path):
    """One cell is made on one processor and timed on another, as on a cluster."""
    generation = {"samples": {0: [3.0], 2: [2.0], 4: [2.0]}, "prompt": 12, "new": 128}
    timed_on = {"device": "cpu", "dtype": "float32", "threads": 1}
    latency = make_record().measured.latency.model_copy(update=timed_on)
    measured = {"generation": generation, "latency": latency}
    alike = [changed(make_record(seed=seed), measured=measured) for seed in (0, 1)]
    elsewhere = latency.model_copy(update={"processor": "B"})
    apart = [alike[0], changed(alike[1], measured={"latency": elsewhere})]
    note = "- timed on several machines: A, cpu, float32, 1 thread (1), B, cpu, float32, 1 thread (1)"
    for records, several in ((alike, False), (apart, True)):
        text, table = board(records), pd.read_csv(StringIO(to_csv(board_of(records))))
        folder = tmp_path / str(several)
        for record in records:
            Store(folder).write(f"t/m/seed{record.cell.seed}", record, OUTCOMES)
        for shown in (text, summary(folder)):
            headings = [line for line in shown.splitlines() if line.startswith("| method")]
            assert headings and all(("speed-up" in line) is not several for line in headings)
            assert (note in shown.replace("\\", "")) is several
        assert "processors" not in text  # both were made on one
        assert table["speedup1"].tolist() == [2.0, 2.0]  # each cell's own
        assert ("machine" in table) is several
    assert [each[0] for each in table["machine"]] == ["A", "B"]


@pytest.mark.parametrize(
    "suite",
    [
        "real-trained",
        *slow_cases("ablations", "mini", "multi30k", "real", "real-llama"),
    ],
)
def test_the_committed_leaderboard_is_drawn_from_the_committed_records(tmp_path, suite):
    committed = Path(__file__).parents[3] / "results" / suite
    shutil.copy(committed / "records.tar.xz", tmp_path)
    for path in write(tmp_path):
        assert path.read_bytes() == (committed / path.name).read_bytes(), path.name


def test_headings_say_what_quality_is(make_record, board):
    answers, texts = make_record(), make_record(data="texts", result={"parts": {}})
    for records, shown in (([answers], "acc."), ([texts], "prob."), ([answers, texts], "quality")):
        overall, first, *_ = board(records).split("\n## ")[1:]
        assert f"| {shown} at 50 % |" in overall
        assert f"| {'prob.' if records == [texts] else 'acc.'} at 50 % |" in first
