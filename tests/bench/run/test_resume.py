"""What is there already is not run again; what no longer holds is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoModelForSequenceClassification

from bench.__main__ import main
from bench.suites.cells import Cell, open_task
from bench.suites.parse import MethodSpec
from tasks.request import TaskSpec

METHODS = ("--methods", "none,michel", "--seeds", "2")
DONE = {"none/seed0", "none/seed1", "michel/seed0", "michel/seed1"}


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def states_of(cache: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in cache.rglob("*")}


def test_a_second_run_runs_nothing_and_trains_nothing(place, capsys):
    assert place.run(*METHODS, "--finetune") == 0
    assert set(place.records()) == DONE
    files, trained = place.files(), states_of(place.cache)
    assert len([name for name in trained if name.endswith("model.safetensors")]) == 2
    capsys.readouterr()
    assert place.run(*METHODS, "--finetune") == 0
    assert place.files() == files
    assert states_of(place.cache) == trained
    output = capsys.readouterr().out
    assert "4 done" in output and "to do" not in output


@pytest.mark.slow
def test_a_trained_model_serves_a_run_into_another_folder(place):
    assert place.run("--methods", "none", "--finetune") == 0
    trained = states_of(place.cache)
    assert place.run("--methods", "none", "--finetune", out=place.folder / "other") == 0
    assert states_of(place.cache) == trained


def test_models_that_are_missing_for_timing_are_trained_before_it(place, capsys):
    """Not within the time of a cell, which ``--timeout`` may end."""
    assert place.run("--methods", "none", "--finetune") == 0
    shutil.rmtree(place.cache)
    capsys.readouterr()
    place.timed = True
    assert place.run("--methods", "none", "--finetune") == 0
    output = capsys.readouterr().out
    assert "to do: 0 cells after training 1 model" in output and "trained tiny-bert, tiny, seed 0" in output
    (record,) = place.records().values()
    assert record["measured"]["latency"]


def test_only_the_cell_whose_record_is_gone_is_run(place):
    assert place.run(*METHODS) == 0
    files = place.files()
    gone = next(path for path in place.out.rglob("seed1.json") if path.parent.name == "michel")
    gone.unlink()
    assert place.run(*METHODS) == 0
    again = place.files()
    assert changed(files, again) == {str(gone.relative_to(place.out / "records"))}
    before, after = (json.loads(content[str(gone.relative_to(place.out / "records"))]) for content in (files, again))
    assert before["result"] == after["result"] and before["outcomes"] == after["outcomes"]


def test_other_levels_replace_every_record(place, capsys):
    assert place.run(*METHODS) == 0
    assert place.run(*METHODS, "--levels", "0.25") == 0
    assert "4 stale" in capsys.readouterr().out
    assert {tuple(record["result"]["removed"]) for record in place.records().values()} == {(0, 2, 8)}
    assert set(place.records()) == DONE


@pytest.mark.slow
def test_another_calibration_size_replaces_every_record(place):
    def run(calibration: int) -> dict:
        settings = f'calibration = {calibration}\nmethods = "michel"\nseeds = 1\nlevels = [0.5]\n'
        assert place.run_suite(settings + place.task()) == 0
        (record,) = place.records().values()
        return record

    small, large = run(10), run(20)
    assert small["key"] != large["key"]
    assert small["result"]["passes"]["forward"] == 10
    assert large["result"]["passes"]["forward"] == 20


@pytest.mark.slow
def test_other_options_are_another_cell(place):
    assert place.run("--methods", "michel") == 0
    files = place.files()
    assert place.run("--methods", "michel:layer_norm=false") == 0
    assert set(place.records()) == {"michel/seed0", "michel_layer_norm=false/seed0"}
    assert files.items() <= place.files().items()


def test_changed_data_or_weights_make_a_record_stale(place, capsys):
    data = place.folder / "tiny.jsonl"
    data.write_bytes(place.data.read_bytes())
    place.data = data
    assert place.run("--methods", "none") == 0
    (key,) = [record["key"] for record in place.records().values()]
    data.write_text(data.read_text().replace("very good", "good very").replace("a film", "film a"))
    open_task.cache_clear()
    assert place.run("--methods", "none") == 0
    assert "1 stale" in capsys.readouterr().out
    assert [record["key"] for record in place.records().values()] != [key]


BREAKS_AT_FIRST = """
from pathlib import Path
import torch
from methods import scorer

@scorer("breaks-at-first", source="test")
def breaks_at_first(view):
    if Path("{mark}").exists():
        raise RuntimeError("not today")
    return torch.arange(len(view.heads)).double()
"""


def test_a_failed_cell_runs_again_only_when_asked(place, plugin, capsys):
    mark = place.folder / "mark"
    mark.touch()
    plugin(BREAKS_AT_FIRST.format(mark=mark))
    flags = ("--methods", "none,breaks-at-first")
    assert place.run(*flags) == 1
    files = place.files()
    mark.unlink()
    assert place.run(*flags) == 1
    assert place.files() == files
    assert "--retry-failed" in capsys.readouterr().out
    assert place.run(*flags, "--retry-failed") == 0
    assert place.records()["breaks-at-first/seed0"]["status"] == "done"
    assert all("breaks-at-first" in name for name in changed(files, place.files()))


def test_a_dry_run_writes_no_record_and_names_every_cell(place, capsys):
    assert place.run(*METHODS, "--dry-run") == 0
    output = capsys.readouterr().out
    assert output.count("missing ") >= 4 and "michel/seed1" in output
    assert place.files() == {} and not place.cache.exists()


@pytest.mark.parametrize("alter", [str, str.title], ids=["same name", "same but for case"])
def test_two_cells_for_one_record_are_refused(place, capsys, alter):
    """On some disks names that differ in their case alone are of one file."""
    twin = place.folder / "twin" / f"{alter(place.data.stem)}{place.data.suffix}"
    twin.parent.mkdir()
    twin.write_text("".join(reversed(place.data.read_text().splitlines(keepends=True))))
    assert place.run_suite("seeds = 1\nmethods = 'none'\n" + place.task() + place.task(data=str(twin))) == 2
    assert "would share the record" in capsys.readouterr().err


@pytest.mark.slow
def test_records_of_another_model_of_the_same_name_are_told_and_not_compared(place, tiny_model, capsys):
    """Cells of other methods stay where a model is replaced: a table of both would mislead."""
    assert place.run("--methods", "none,random") == 0
    other = place.folder / "other" / tiny_model.name
    shutil.copytree(tiny_model, other)
    model = AutoModelForSequenceClassification.from_pretrained(other)
    model.classifier.weight.data.neg_()
    model.save_pretrained(other)
    assert place.run("--methods", "michel", "--model", str(other)) == 0
    assert "records of several settings: digest of data and model" in (place.out / "leaderboard.md").read_text()
    capsys.readouterr()
    assert main(["compare", "michel", "random", str(place.out)]) == 2
    error = capsys.readouterr().err
    assert "measured under different settings, which cannot be compared: digest of data and model" in error


def test_a_name_too_long_for_a_file_is_shortened(place):
    names = [f"{'x' * 300}{end}" for end in "ab"]
    cells = [
        Cell(TaskSpec(task="mnli"), name, "model", MethodSpec("none", {}), 0, (0,), 8, 1.0, "cpu", "") for name in names
    ]
    folders = {cell.name.split("/")[0] for cell in cells}
    assert len(folders) == 2 and all(len(folder) < 100 for folder in folders)
