"""What a run and a leaderboard do with records that were damaged."""

from __future__ import annotations

import json

import pytest

from bench.__main__ import main
from bench.records.storage.files import digest_of, warn_once
from tests.fixtures.slow import slow_cases

FLAGS = ("--methods", "none,random", "--seeds", "2")


def damaged(place, ending: str, method: str = "random"):
    path = next(path for path in place.out.rglob(f"seed1{ending}") if path.parent.name == method)
    path.write_bytes(path.read_bytes()[:-9])
    return path


@pytest.mark.parametrize("ending", [".json", *slow_cases(".safetensors")])
def test_a_damaged_record_is_named_set_aside_and_made_again(place, capsys, ending):
    assert place.run(*FLAGS) == 0
    files, results = place.files(), place.results()
    path = damaged(place, ending)
    capsys.readouterr()
    assert place.run(*FLAGS) == 0
    told = capsys.readouterr()
    assert "random/seed1" in told.err and "set aside as seed1.json.corrupt1" in told.err
    assert "1 corrupt, 3 done" in told.out
    assert place.results() == results
    again = {name: content for name, content in place.files().items() if ".corrupt" not in name}
    assert {name for name in files if files[name] != again[name]} == {
        str(path.with_suffix(".json").relative_to(place.out / "records"))
    }


@pytest.mark.slow
def test_a_damaged_record_of_another_cell_does_not_stop_a_run(place, capsys):
    assert place.run(*FLAGS) == 0
    damaged(place, ".json")
    assert place.run("--methods", "none") == 0
    assert "random/seed1" in capsys.readouterr().err
    assert "random" in (place.out / "leaderboard.md").read_text()


def test_a_file_of_the_user_among_the_records_keeps_its_name(place, capsys):
    assert place.run("--methods", "none") == 0
    note = place.out / "records" / "mine" / "notes" / "a.json"
    note.parent.mkdir(parents=True)
    note.write_text('{"mine": true}')
    assert place.run("--methods", "none") == 0
    assert note.read_text() == '{"mine": true}' and [each.name for each in note.parent.iterdir()] == ["a.json"]
    assert f"skipped, as its name is not that of a record, seedN.json: {note}" in capsys.readouterr().err


def test_a_dry_run_names_a_damaged_record_and_leaves_it(place, capsys):
    assert place.run(*FLAGS) == 0
    damaged(place, ".json")
    files = place.files()
    assert place.run(*FLAGS, "--dry-run") == 0
    assert "would be set aside" in capsys.readouterr().err
    assert place.files() == files


@pytest.mark.parametrize("ending", [".json", *slow_cases(".safetensors")])
def test_verbs_that_only_read_name_a_damaged_record_and_leave_it_out(place, capsys, ending):
    assert place.run(*FLAGS) == 0
    damaged(place, ending)
    files = place.files()
    for verb in (["leaderboard"], ["compare", "none", "random"], ["regress", "--baseline", str(place.out)]):
        warn_once.cache_clear()
        capsys.readouterr()
        assert main([*verb, str(place.out)]) == 0
        told = capsys.readouterr()
        assert told.err.count("\n") == 1 and "left out, a corrupt record" in told.err and "random/seed1" in told.err
    assert place.files() == files
    assert "random: only seed 0" in (place.out / "leaderboard.md").read_text()


def test_a_full_disk_ends_a_run_in_one_line_and_keeps_what_was_finished(place, capsys, file_size_limit):
    assert place.run("--methods", "none") == 0
    files = place.files()
    capsys.readouterr()
    with file_size_limit(1000):
        assert place.run(*FLAGS) == 2
    *status, error = capsys.readouterr().err.splitlines()
    assert all(line.startswith("  ") for line in status)  # a slow cell is named
    assert error.startswith(f"headbench: error: {place.out}/records/") and error.endswith(
        "run the command again to continue"
    )
    assert place.files() == files
    assert place.run(*FLAGS) == 0


@pytest.mark.parametrize("verb", ["leaderboard", "report"])
def test_where_no_record_is_right_each_is_named(place, capsys, verb):
    """Its digest fits: it was written by something else than a run."""
    assert place.run("--methods", "none") == 0
    path = next((place.out / "records").rglob("seed0.json"))
    record = json.loads(path.read_text())
    record["result"]["units"] = "many"
    del record["digest"]
    path.write_text(json.dumps(record | {"digest": digest_of(record)}))
    capsys.readouterr()
    assert main([verb, str(place.out)]) == 2
    named, error = capsys.readouterr().err.splitlines()
    assert "seed0.json: result.units: Input should be a valid integer" in named
    assert error.endswith("its records are corrupt; `headbench run` makes them again")
