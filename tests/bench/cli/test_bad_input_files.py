"""Files that cannot be read and places that cannot be written end the command in one line."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.records.storage.files import TEMPORARY

ROOT = Path(__file__).parents[3]
METHODS = ("--methods", "none,michel,ae", "--seeds", "3")


def start(command: list[str], **settings) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, **settings)


def bench(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bench", *map(str, arguments)]


def refused(*arguments: object) -> str:
    """What is said where permissions apply, also to root."""
    powerless = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if powerless and not shutil.which("setpriv"):
        pytest.skip("there is no setpriv here, and permissions do not apply to root")
    done = start([*powerless, *bench(*arguments)])
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr.removeprefix("headbench: error: ").rstrip("\n")


def own(data: object, model: object = "") -> list[object]:
    flags = ["run", "--task", "classification", "--data", data, "--methods", "none"]
    return [*flags, "--model", model] if model else flags


@pytest.mark.slow
def test_a_file_without_permission(tmp_path):
    (tmp_path / "d.csv").write_text("text,label\n")
    (tmp_path / "d.csv").chmod(0)
    assert refused(*own(tmp_path / "d.csv")) == f"{tmp_path}/d.csv: cannot be read: Permission denied"


@pytest.mark.slow
def test_an_output_folder_without_permission(tmp_path, tiny_data, tiny_model):
    tmp_path.chmod(0o555)
    said = refused(*own(tiny_data, tiny_model), "--out", tmp_path / "out")
    assert said == f"--out {tmp_path}/out: cannot write there: Permission denied"


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/headbench", "/dev/null/x"])
def test_an_output_folder_that_cannot_be(complaint, tmp_path, tiny_data, tiny_model, place):
    (tmp_path / "file").write_text("mine")
    for flags in ((), ("--dry-run",)) if place != "/proc/headbench" else ((),):
        said = complaint(*own(tiny_data, tiny_model), "--out", place, *flags)
        assert said.startswith(f"--out {place}: cannot write there: ")
    assert (tmp_path / "file").read_text() == "mine"
    if place.startswith("file"):
        assert said.endswith("file is a file, not a folder")
        assert complaint("list", "cells", *own(tiny_data, tiny_model)[1:], "--out", place) == said


def test_a_file_where_the_folder_of_records_should_be(complaint, tmp_path, tiny_data, tiny_model):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "records").write_text("mine")
    said = complaint(*own(tiny_data, tiny_model), "--out", "out")
    assert said.startswith("out/records: a file, where the folder of records should be: move it away, or give another")


def test_bad_input_leaves_no_folder_behind(complaint, tmp_path, tiny_data):
    for flags in (own("nowhere.jsonl"), own(tiny_data, "./nowhere"), ["run", "--levels", "2"]):
        complaint(*flags, "--out", tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_a_run_that_begins_no_cell_says_nothing_of_finished_ones(complaint, tmp_path, tiny_data):
    name = "n" * 300 + ".csv"
    (tmp_path / "out").mkdir()
    assert complaint(*own(name), "--out", "out") == f"{name}: File name too long"
    assert complaint(*own(tiny_data), "--out", "n" * 300) == f"{'n' * 300}: File name too long"


@pytest.mark.parametrize("out", ["", "out"])
def test_a_run_that_begins_a_cell_says_that_finished_ones_are_kept(place, capfd, monkeypatch, out):
    def fail(*_, **__):
        raise OSError(28, "No space left on device", "some/file")

    monkeypatch.chdir(place.folder)
    monkeypatch.setattr("bench.run.runner.run_cells", fail)
    assert main([*map(str, own(place.data, place.model)), "--device", "cpu", *(["--out", out] if out else [])]) == 2
    said = "some/file: No space left on device; finished cells are kept: run the command again to continue"
    assert capfd.readouterr().err == f"headbench: error: {said}\n"


def run_mounted(place, options: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run with the output folder as a mount of its own, seen by that run only; what it left is copied to ``left``."""
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare here, with which to mount a small disk")
    place.out.mkdir()
    out, left = shlex.quote(str(place.out)), shlex.quote(str(place.folder / "left"))
    script = (
        f"mount -t tmpfs -o {options} tmpfs {out} || exit 77\n"
        f"{shlex.join(bench(*place.arguments(*flags)))}; code=$?\ncp -r {out} {left}; exit $code"
    )
    user = ["--user", "--map-root-user"] if os.geteuid() else []
    done = start(["unshare", "--mount", *user, "sh", "-c", script])
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"mounting a small disk is not permitted here: {done.stderr.strip()}")
    return done


@pytest.mark.slow
def test_a_full_disk_ends_in_one_line_and_keeps_what_was_finished(place):
    left = place.folder / "left"
    done = run_mounted(place, "size=48k", *METHODS)
    assert done.returncode == 2, done
    *status, error = done.stderr.splitlines()
    assert all(line.startswith("  ") for line in status)  # a slow cell is named
    assert error.startswith(f"headbench: error: {place.out}/") and "No space left on device" in error
    assert error.endswith("finished cells are kept: run the command again to continue")
    names = [path for path in left.rglob("*") if path.is_file()]
    assert not [path for path in names if path.name.endswith(TEMPORARY)]
    records = [path for path in names if path.suffix == ".json"]
    assert records and all(json.loads(path.read_text())["status"] == "done" for path in records)
    # On a disk with room again, only the rest is run.
    shutil.copytree(left, place.out, dirs_exist_ok=True)
    before = {name: record["measured"]["seconds"] for name, record in place.records().items()}
    assert place.run(*METHODS) == 0
    after = {name: record["measured"]["seconds"] for name, record in place.records().items()}
    assert before and {name: after[name] for name in before} == before


@pytest.mark.slow
def test_a_disk_mounted_for_reading_only(place):
    done = run_mounted(place, "ro", "--methods", "none")
    assert done.returncode == 2
    assert done.stderr == f"headbench: error: --out {place.out}: cannot write there: Read-only file system\n"
